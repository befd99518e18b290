//! `GET /v1/connections`: counts of the connections to the API server by purpose.

use axum::Json;
use axum::extract::State;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use hostlet_cluster::api::LaneCounts;

/// The counts by purpose; empty on a standalone host.
pub(super) async fn connections(
    State((server, _)): State<(ControlServer, CancellationToken)>,
) -> Json<Vec<LaneCounts>> {
    Json(server.connections.counts())
}
