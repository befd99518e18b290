//! HTTP over the control socket: the endpoints by their paths. Everything but `exec` and `restart` only reads.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::{
    connections, events, exec, explain, http, images, logs, node, plugins, pods, pulls, restart, timeline,
    usage,
};
use hostlet_telemetry::PROMETHEUS_TEXT;

/// How long clients have to disconnect at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

impl ControlServer {
    /// Serves until cancelled. Watches then end; clients that do not disconnect are cut off.
    pub async fn run(self, listener: UnixListener, cancel: CancellationToken) {
        let app = Router::new()
            .route("/v1/pods", get(pods::pods))
            .route("/v1/explain", get(explain::explain))
            .route("/v1/timeline", get(timeline::timeline))
            .route("/v1/logs", get(logs::logs))
            .route("/v1/images", get(images::images))
            .route("/v1/pulls", get(pulls::pulls))
            .route("/v1/node", get(node::node))
            .route("/v1/plugins", get(plugins::plugins))
            .route("/v1/exec", post(exec::exec))
            .route("/v1/restart", post(restart::restart))
            .route("/v1/events", get(events::events))
            .route("/v1/usage", get(usage::usage))
            .route("/v1/connections", get(connections::connections))
            .route("/metrics", get(metrics))
            .route("/metrics/probes", get(probe_metrics))
            .with_state((self, cancel.clone()));
        let serving = http::serve(listener, app, &cancel);
        let overdue = async {
            cancel.cancelled().await;
            tokio::time::sleep(SHUTDOWN_GRACE).await;
        };
        tokio::select! {
            // Cancel-safe: dropping the server closes its connections.
            () = overdue => {}
            () = serving => {}
        }
    }
}

/// All metrics in Prometheus' text format.
async fn metrics(State((server, _)): State<(ControlServer, CancellationToken)>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], server.metrics.encode())
}

/// The metrics of probes, in the same format.
async fn probe_metrics(State((server, _)): State<(ControlServer, CancellationToken)>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], server.probe_metrics.encode())
}
