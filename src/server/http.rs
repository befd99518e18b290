//! HTTP/1 on a unix socket. axum's own way of serving would bring HTTP/2 as well, since the gRPC client has its library
//! compiled with that. Knows no routes.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long no connections are taken after one could not be: most likely there are too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until cancelled and everybody has left. Dropped before that, it cuts them off.
pub(super) async fn serve(listener: UnixListener, app: Router, cancel: &CancellationToken) {
    let mut connections = JoinSet::new();
    let leaving = GracefulShutdown::new();
    loop {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => break,
            // Cancel-safe: a connection is taken only when it is returned.
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let service = TowerToHyperService::new(app.clone());
                    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    // Whoever hung up is gone, which is no trouble of ours.
                    connections.spawn(leaving.watch(connection));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection to the control socket");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            // Cancel-safe: an ended task is taken off the set only when it is returned.
            Some(_) = connections.join_next() => {}
        }
    }
    leaving.shutdown().await;
}
