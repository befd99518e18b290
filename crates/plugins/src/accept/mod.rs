//! Connections from plugins and agents of this host to gRPC services on Unix sockets. Knows no service.

mod authority;
mod stream;

use std::io;

use futures::{Stream, StreamExt};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;

pub use stream::AgentStream;

/// The connections to a socket, for a gRPC server. Also programs that put the socket's path into their requests are understood.
pub fn incoming(listener: UnixListener) -> impl Stream<Item = io::Result<AgentStream>> {
    UnixListenerStream::new(listener).map(|accepted| accepted.map(AgentStream::new))
}
