//! `GET /metrics` and `GET /metrics/probes`, in Prometheus' text format.

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use hostlet_telemetry::{Metrics, PROMETHEUS_TEXT};

/// What is scraped.
pub struct MetricsEndpoints {
    /// All metrics but those of probes.
    pub metrics: Metrics,
    /// The metrics of `/metrics/probes`, which the kubelet serves apart.
    pub probes: Metrics,
}

impl MetricsEndpoints {
    /// Both endpoints.
    pub(super) fn routes(self) -> Router {
        let metrics = Router::new().route("/metrics", get(scrape)).with_state(self.metrics);
        metrics.merge(Router::new().route("/metrics/probes", get(scrape)).with_state(self.probes))
    }
}

async fn scrape(State(metrics): State<Metrics>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], metrics.encode())
}
