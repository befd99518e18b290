//! HTTP/1 on a Unix socket. axum's own server would include HTTP/2, because the gRPC client enables that feature of hyper. Knows no
//! routes.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Pause after a failed accept, most likely because of too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until cancelled and all clients have disconnected. Dropping it closes the connections.
pub(super) async fn serve(listener: UnixListener, app: Router, cancel: &CancellationToken) {
    let mut connections = JoinSet::new();
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => break,
            // Cancel-safe: a connection is accepted only when returned.
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let service = TowerToHyperService::new(app.clone());
                    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    // The client disconnected, which is no error.
                    connections.spawn(graceful.watch(connection));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the control socket");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            // Cancel-safe: an ended task leaves the set only when returned.
            Some(_) = connections.join_next() => {}
        }
    }
    graceful.shutdown().await;
}
