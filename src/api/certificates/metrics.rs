//! The metric of the client certificate. The name is upstream's.

use jiff::Timestamp;
use tokio::sync::watch;

use super::report::CertificateReport;
use crate::telemetry::Metrics;
use crate::types::WallClock;

/// Registers the time until the client certificate expires.
pub fn register(metrics: &Metrics, report: watch::Receiver<Option<CertificateReport>>, clock: WallClock) {
    metrics.register_value(
        "kubelet_certificate_manager_client_ttl_seconds",
        "Time until the client certificate expires, in seconds; negative once it has, infinite without one.",
        move || seconds_left(report.borrow().as_ref(), clock.now()),
    );
}

fn seconds_left(report: Option<&CertificateReport>, now: Timestamp) -> f64 {
    let expires = report.and_then(|report| report.expires);
    expires.map_or(f64::INFINITY, |expires| expires.duration_since(now).as_secs() as f64)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

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
