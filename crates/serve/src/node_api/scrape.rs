//! `/metrics` and `/metrics/probes`, in Prometheus' text format.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::header::CONTENT_TYPE;

use hostlet_telemetry::{Metrics, PROMETHEUS_TEXT};

/// What is scraped.
#[derive(Clone, Default)]
pub struct Scraped {
    /// `/metrics`.
    pub metrics: Metrics,
    /// `/metrics/probes`.
    pub probes: Metrics,
}

impl Scraped {
    /// Both endpoints. Upstream answers every method.
    pub(super) fn routes(self) -> Router {
        let metrics = Router::new().route("/metrics", any(scrape)).with_state(self.metrics);
        metrics.merge(Router::new().route("/metrics/probes", any(scrape)).with_state(self.probes))
    }
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], metrics.encode()).into_response()
}
