//! A client of SPDY/3.1 as container runtimes serve it for `exec`, `attach` and `port-forward` (SPDY protocol, draft 3.1; runtimes use it
//! without priorities, settings and flow control). Knows no HTTP, and not what streams are for.

mod connection;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod frame;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Driver, Stream};
pub use error::SpdyError;
// For whoever passes the frames of a runtime on.
pub use frame::{Control, HEAD, Head, encode_data_head};
