//! Metrics of the client certificate and of the certificate of the node's API. The names are upstream's.

use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_telemetry::{Metrics, PlainCounter};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::watch;

use super::report::CertificateReport;

/// Registers the time until the client certificate expires.
pub fn register(metrics: &Metrics, report: watch::Receiver<Option<CertificateReport>>, clock: WallClock) {
    metrics.register_value(
        "kubelet_certificate_manager_client_ttl_seconds",
        "Time until the client certificate expires, in seconds; negative once it has, infinite without one.",
        move || seconds_left(report.borrow().as_ref(), clock.now()),
    );
}

fn seconds_left(report: Option<&CertificateReport>, now: Timestamp) -> f64 {
    left(report.and_then(|report| report.expires), now)
}

/// Buckets of the age of a certificate when another one replaces it, in seconds: a minute to four years.
const AGES: [f64; 10] = [
    60.0,
    3_600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// The metrics of the certificate of the node's API.
pub struct ServingMetrics {
    expires: Arc<Mutex<Option<Timestamp>>>,
    ages: Histogram,
    failures: PlainCounter,
}

impl ServingMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics, clock: WallClock) -> Self {
        let new =
            Self { expires: Arc::default(), ages: Histogram::new(AGES), failures: PlainCounter::default() };
        let expires = new.expires.clone();
        metrics.register_value(
            "kubelet_certificate_manager_server_ttl_seconds",
            "Time until the certificate of the node's API expires, in seconds; negative once it has, infinite without one.",
            move || left(*expires.lock(), clock.now()),
        );
        metrics.register(
            "kubelet_certificate_manager_server_rotation_seconds",
            "Age in seconds of a certificate of the node's API when another one replaced it",
            new.ages.clone(),
        );
        metrics.register(
            "kubelet_server_expiration_renew_errors",
            "Failed attempts to get a certificate of the node's API",
            new.failures.clone(),
        );
        new
    }

    pub(super) fn expires(&self, at: Timestamp) {
        *self.expires.lock() = Some(at);
    }

    pub(super) fn rotated(&self, age: SignedDuration) {
        self.ages.observe(age.as_secs_f64());
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }
}

fn left(expires: Option<Timestamp>, now: Timestamp) -> f64 {
    expires.map_or(f64::INFINITY, |expires| expires.duration_since(now).as_secs() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_negative_once_a_certificate_has_expired() {
        let now = Timestamp::now();
        let report = |expires| CertificateReport { expires, ..CertificateReport::default() };
        let left = |report: &CertificateReport| seconds_left(Some(report), now);
        assert_eq!(left(&report(Some(now + SignedDuration::from_secs(90)))), 90.0);
        assert_eq!(left(&report(Some(now - SignedDuration::from_secs(5)))), -5.0);
        assert!(left(&report(None)).is_infinite() && seconds_left(None, now).is_infinite());
    }

    #[test]
    fn the_metric_has_upstreams_name() {
        let (metrics, report) = (Metrics::default(), watch::channel(None).1);
        register(&metrics, report, WallClock::system());
        let text = metrics.encode();
        assert!(text.contains("kubelet_certificate_manager_client_ttl_seconds inf"), "{text}");
    }
}
