//! Connections to the services of plugins: gRPC on a Unix socket. Knows no service, and never retries.

use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::one_line;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

/// Never dialed, as the connector connects to the socket. Upstream's authority.
const LOCALHOST: &str = "http://localhost";

/// A connection to the service on `socket`, which is established by the first call, and by the first one after it was lost.
pub fn lazy_channel(socket: &Path) -> Channel {
    Endpoint::from_static(LOCALHOST).connect_with_connector_lazy(connector(socket.to_owned(), ()))
}

/// Connects to the service on `socket`. Has no deadline. Cancel-safe.
///
/// # Errors
/// Nothing listens there.
pub async fn connect(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    connect_keeping(socket.to_owned(), ()).await
}

/// The same; `keep`, which the path may need, lives until the connection is established.
pub(super) async fn connect_keeping(
    socket: PathBuf,
    keep: impl Clone + Send + 'static,
) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_static(LOCALHOST).connect_with_connector(connector(socket, keep)).await
}

fn connector<K: Clone + Send + 'static>(
    socket: PathBuf,
    keep: K,
) -> impl Service<Uri, Response = TokioIo<UnixStream>, Error = io::Error, Future: Send> + Send {
    tower::service_fn(move |_: Uri| {
        let (socket, keep) = (socket.clone(), keep.clone());
        async move {
            let stream = UnixStream::connect(socket).await;
            drop(keep);
            Ok(TokioIo::new(stream?))
        }
    })
}

/// The root cause of a transport error, which its own text omits: one line of at most about `most` bytes.
pub fn root_cause(error: &dyn std::error::Error, most: usize) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    one_line(&cause.to_string(), most)
}
