//! Metrics of requests, with upstream's names, labels and buckets.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};
use http::Method;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::endpoints;
use super::held::Held;

/// Which of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerType {
    /// With credentials.
    ReadWrite,
    /// Without.
    ReadOnly,
}

impl ServerType {
    fn label(self) -> &'static str {
        match self {
            Self::ReadWrite => "readwrite",
            Self::ReadOnly => "readonly",
        }
    }
}

type Labels = [(&'static str, &'static str); 4];

/// The metrics of requests. Clones share them.
#[derive(Clone)]
pub struct RequestMetrics {
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
    in_flight: Family<Labels, Gauge>,
}

impl RequestMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Self {
        let new = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DEFAULT_BUCKETS)),
            in_flight: Family::default(),
        };
        metrics.register(
            "kubelet_http_requests",
            "Number of the http requests received since the server started",
            new.requests.clone(),
        );
        metrics.register(
            "kubelet_http_requests_duration_seconds",
            "Duration in seconds to serve http requests",
            new.durations.clone(),
        );
        metrics.register(
            "kubelet_http_inflight_requests",
            "Number of the inflight http requests",
            new.in_flight.clone(),
        );
        new
    }

    fn begin(&self, method: &Method, path: &str, server: ServerType) -> InFlight {
        let endpoint = endpoints::find(path);
        let labels = [
            ("method", method_label(method)),
            ("path", endpoint.metric_label),
            ("server_type", server.label()),
            ("long_running", if endpoint.is_long_running { "true" } else { "false" }),
        ];
        self.requests.get_or_create(&labels).inc();
        self.in_flight.get_or_create(&labels).inc();
        InFlight(Arc::new(Measured { metrics: self.clone(), labels, began: Instant::now() }))
    }
}

/// A request in progress, an extension of each request. It is measured until its response is sent; a session that lasts longer than that
/// keeps a clone until it ends.
#[derive(Clone)]
pub(super) struct InFlight(#[expect(dead_code, reason = "dropped to end the measurement")] Arc<Measured>);

struct Measured {
    metrics: RequestMetrics,
    labels: Labels,
    began: Instant,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.metrics.durations.get_or_create(&self.labels).observe(self.began.elapsed().as_secs_f64());
        self.metrics.in_flight.get_or_create(&self.labels).dec();
    }
}

/// Measures each request.
pub(super) async fn measure(
    State((metrics, server)): State<(RequestMetrics, ServerType)>,
    mut request: Request,
    next: Next,
) -> Response {
    let in_flight = metrics.begin(request.method(), request.uri().path(), server);
    request.extensions_mut().insert(in_flight.clone());
    let response = next.run(request).await;
    response.map(|body| Body::new(Held::new(body, in_flight)))
}

fn method_label(method: &Method) -> &'static str {
    let names = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];
    names.into_iter().find(|name| method == name).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_bounded() {
        assert_eq!(method_label(&Method::PATCH), "other");
        assert_eq!(method_label(&Method::from_bytes(b"BREW").unwrap()), "other");
        assert_eq!(method_label(&Method::GET), "GET");
    }

    #[test]
    fn a_request_is_measured_until_its_last_part_ends() {
        let registry = Metrics::default();
        let metrics = RequestMetrics::new(&registry);
        let in_flight = metrics.begin(&Method::POST, "/exec/a/b/c", ServerType::ReadWrite);
        let session = in_flight.clone();
        drop(in_flight);
        let labels = r#"{method="POST",path="exec",server_type="readwrite",long_running="true"}"#;
        let text = registry.encode();
        assert!(text.contains(&format!("kubelet_http_requests_total{labels} 1\n")), "{text}");
        assert!(text.contains(&format!("kubelet_http_inflight_requests{labels} 1\n")), "{text}");
        drop(session);
        let text = registry.encode();
        assert!(text.contains(&format!("kubelet_http_inflight_requests{labels} 0\n")), "{text}");
        assert!(
            text.contains(&format!("kubelet_http_requests_duration_seconds_count{labels} 1\n")),
            "{text}"
        );
    }
}
