//! HTTP/1 on a unix socket. axum's own way of serving would bring HTTP/2 as well, since the gRPC client has its library
//! compiled with that. Knows no routes.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long no connections are taken after one could not be: most likely there are too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until cancelled and everybody has left. Dropped before that, it cuts them off.
pub(super) async fn serve(listener: UnixListener, app: Router, cancel: &CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Cancel-safe: waiting for a token takes nothing.
            () = cancel.cancelled() => break,
            // Cancel-safe: a connection is taken only when it is returned.
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, app.clone(), cancel.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection to the control socket");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            // Cancel-safe: an ended task is taken off the set only when it is returned.
            Some(_) = connections.join_next() => {}
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: UnixStream, app: Router, cancel: CancellationToken) {
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let mut serving = pin!(serving);
    tokio::select! {
        // Cancel-safe: it is pinned outside and goes on below. Whoever hung up is gone, which is no trouble of ours.
        _ = serving.as_mut() => return,
        // Cancel-safe: waiting for a token takes nothing.
        () = cancel.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
