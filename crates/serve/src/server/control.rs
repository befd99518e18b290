//! The endpoints of the control socket, each with what it needs. Everything but `exec`, `restart`, the removal of unused images and
//! giving up a claim only reads.

use std::time::Duration;

use axum::Router;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use super::claims::ClaimsEndpoint;
use super::devices::DevicesEndpoint;
use super::events::EventsEndpoint;
use super::exec::ExecEndpoint;
use super::explain::ExplainEndpoint;
use super::http;
use super::images::ImageEndpoints;
use super::logs::LogsEndpoint;
use super::metrics::MetricsEndpoints;
use super::node::NodeEndpoints;
use super::pods::PodsEndpoint;
use super::restart::RestartEndpoint;
use super::timeline::TimelineEndpoint;
use super::usage::UsageEndpoint;
use super::volumes::VolumesEndpoint;

/// How long clients have to disconnect at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// The server of the control socket.
pub struct ControlServer {
    /// `/v1/pods`.
    pub pods: PodsEndpoint,
    /// `/v1/explain`.
    pub explain: ExplainEndpoint,
    /// `/v1/timeline`.
    pub timeline: TimelineEndpoint,
    /// `/v1/events`.
    pub events: EventsEndpoint,
    /// `/v1/logs`.
    pub logs: LogsEndpoint,
    /// `/v1/exec`.
    pub exec: ExecEndpoint,
    /// `/v1/restart`.
    pub restart: RestartEndpoint,
    /// `/v1/images`, what is below it, and `/v1/pulls`.
    pub images: ImageEndpoints,
    /// `/v1/node`, `/v1/plugins` and `/v1/connections`.
    pub node: NodeEndpoints,
    /// `/v1/volumes`.
    pub volumes: VolumesEndpoint,
    /// `/v1/claims` and `/v1/claims/forget`.
    pub claims: ClaimsEndpoint,
    /// `/v1/devices`.
    pub devices: DevicesEndpoint,
    /// `/v1/usage`.
    pub usage: UsageEndpoint,
    /// `/metrics` and `/metrics/probes`.
    pub metrics: MetricsEndpoints,
}

impl ControlServer {
    /// Serves until cancelled. Watches then end; clients that do not disconnect are cut off.
    pub async fn run(self, listener: UnixListener, cancel: CancellationToken) {
        let app = Router::new()
            .merge(self.pods.routes(cancel.clone()))
            .merge(self.explain.routes())
            .merge(self.timeline.routes())
            .merge(self.events.routes(cancel.clone()))
            .merge(self.logs.routes(cancel.clone()))
            .merge(self.exec.routes())
            .merge(self.restart.routes())
            .merge(self.images.routes())
            .merge(self.node.routes())
            .merge(self.volumes.routes())
            .merge(self.claims.routes())
            .merge(self.devices.routes())
            .merge(self.usage.routes())
            .merge(self.metrics.routes());
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
