//! `/configz`: the KubeletConfiguration that the daemon started with, with all defaults. Upstream answers every method.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::any;
use hostlet_config::EffectiveConfig;
use serde_json::json;

use super::answers::json;

/// `/configz`.
pub(super) fn routes(configuration: EffectiveConfig) -> Router {
    Router::new().route("/configz", any(configz)).with_state(configuration)
}

async fn configz(State(configuration): State<EffectiveConfig>) -> Response {
    json(&json!({"kubeletconfig": configuration.kubelet()}))
}
