//! `/configz`: the KubeletConfiguration that the daemon started with, with all defaults.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::answers::{json, only_get};
use crate::config::EffectiveConfig;

/// `/configz`.
pub(super) fn routes(configuration: EffectiveConfig) -> Router {
    Router::new().route("/configz", get(configz).fallback(only_get)).with_state(configuration)
}

async fn configz(State(configuration): State<EffectiveConfig>) -> Response {
    json(&json!({"kubeletconfig": configuration.kubelet()}))
}
