//! `GET /v1/plugins`: the plugins at the registration sockets of this host.

use axum::Json;
use axum::extract::State;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use hostlet_plugins::PluginView;

/// All registration sockets, by path.
pub(super) async fn plugins(
    State((server, _)): State<(ControlServer, CancellationToken)>,
) -> Json<Vec<PluginView>> {
    Json(server.plugins.all())
}
