//! HTTP/1 on a Unix socket. axum's own server would include HTTP/2, because the gRPC client enables that feature of hyper. Knows no
//! routes.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Pause after a failed accept, most likely because of too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of connections; more wait for one to end.
const MOST: usize = 256;

/// Serves until cancelled and all clients have disconnected. Dropping it closes the connections.
pub(super) async fn serve(listener: UnixListener, app: Router, cancel: &CancellationToken) {
    let mut connections = JoinSet::new();
    let graceful = GracefulShutdown::new();
    let mut builder = http1::Builder::new();
    // Enforces hyper's time limit for the headers of a request.
    builder.timer(TokioTimer::new());
    loop {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => break,
            // Cancel-safe: a connection is accepted only when returned.
            accepted = listener.accept(), if connections.len() < MOST => match accepted {
                Ok((stream, _)) => {
                    let service = TowerToHyperService::new(app.clone());
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    // The client disconnected, which is no error.
                    connections.spawn(graceful.watch(connection));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            // Cancel-safe: an ended task leaves the set only when returned.
            Some(_) = connections.join_next() => {}
        }
    }
    graceful.shutdown().await;
}
