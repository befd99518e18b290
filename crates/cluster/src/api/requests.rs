//! Metrics of requests to the API server, with client-go's names, labels and buckets.

use std::time::Duration;

use http::{Method, StatusCode, Uri};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_telemetry::Metrics;

/// client-go's buckets, seconds.
const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    verb: String,
    host: String,
}

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct RequestMetrics {
    requests: Family<Outcome, Counter>,
    durations: Family<Target, Histogram, fn() -> Histogram>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

impl RequestMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            self.requests.clone(),
        );
        metrics.register(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host",
            self.durations.clone(),
        );
    }

    /// Observes a request to this server whose response began after `took`; `None` if there was none.
    pub(super) fn answered(&self, method: &Method, server: &Uri, code: Option<StatusCode>, took: Duration) {
        let host = server.authority().map(ToString::to_string).unwrap_or_default();
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.as_str().to_owned());
        let outcome = Outcome { code, method: method.to_string(), host: host.clone() };
        self.requests.get_or_create(&outcome).inc();
        let target = Target { verb: method.to_string(), host };
        self.durations.get_or_create(&target).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_their_code_and_host() {
        let (all, requests) = (Metrics::default(), RequestMetrics::default());
        requests.register(&all);
        let uri = "https://10.0.0.1:6443/base".parse().unwrap();
        requests.answered(&Method::GET, &uri, Some(StatusCode::OK), Duration::from_millis(20));
        requests.answered(&Method::GET, &uri, None, Duration::from_secs(3));
        let text = all.encode();
        for line in [
            "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"10.0.0.1:6443\"} 1",
            "rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"10.0.0.1:6443\"} 1",
            "rest_client_request_duration_seconds_bucket{le=\"0.025\",verb=\"GET\",host=\"10.0.0.1:6443\"} 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
    }
}
