//! What gRPC services for agents of this host have in common: their sockets and the limit of their calls. Knows no service.

mod limit;
mod socket;

pub(crate) use limit::RateLimit;
pub(crate) use socket::serve_socket;
