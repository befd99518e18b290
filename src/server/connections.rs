//! `GET /v1/connections`: how many connections to the API server there are, and what for.

use axum::Json;
use axum::extract::State;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use crate::api::LaneCounts;

/// The connections by what they are used for; none on a host that runs alone.
pub(super) async fn connections(
    State((server, _)): State<(ControlServer, CancellationToken)>,
) -> Json<Vec<LaneCounts>> {
    Json(server.connections.counts())
}
