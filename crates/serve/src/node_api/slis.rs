//! `/metrics/slis` (KEP-3466): the results of the checks of `/healthz`, with upstream's names and labels. Makes no check.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use hostlet_cluster::node::register_start;
use hostlet_telemetry::{Metrics, PROMETHEUS_TEXT};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::answers::text;

/// The endpoint that makes the checks.
const TYPE: (&str, &str) = ("type", "healthz");

/// Results of checks. Clones share them.
#[derive(Clone)]
pub(super) struct Slis {
    latest: Family<[(&'static str, &'static str); 2], Gauge>,
    results: Family<[(&'static str, &'static str); 3], Counter>,
    registry: Metrics,
}

impl Slis {
    /// No results yet, of a process that started then.
    pub(super) fn new(started: Timestamp) -> Self {
        let new =
            Self { latest: Family::default(), results: Family::default(), registry: Metrics::default() };
        new.registry.register(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck",
            new.latest.clone(),
        );
        new.registry.register(
            "kubernetes_healthchecks",
            "[STABLE] This metric records the results of all healthcheck",
            new.results.clone(),
        );
        register_start(&new.registry, started);
        new
    }

    /// Records a result of the check with this name.
    pub(super) fn record(&self, name: &'static str, has_passed: bool) {
        self.latest.get_or_create(&[("name", name), TYPE]).set(i64::from(has_passed));
        let status = if has_passed { "success" } else { "error" };
        self.results.get_or_create(&[("name", name), ("status", status), TYPE]).inc();
    }

    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/metrics/slis", any(answer)).with_state(self)
    }
}

/// The results. DELETE forgets them.
async fn answer(State(slis): State<Slis>, method: Method) -> Response {
    if method == Method::DELETE {
        slis.latest.clear();
        slis.results.clear();
        return text(StatusCode::OK, "metrics reset\n");
    }
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], slis.registry.encode()).into_response()
}
