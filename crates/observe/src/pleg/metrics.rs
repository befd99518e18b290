//! Metrics of the relist, with upstream's names (`pkg/kubelet/metrics`).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};

#[derive(Clone, Debug)]
pub(super) struct PlegMetrics {
    duration: Histogram,
    interval: Histogram,
    last_seen: Gauge<f64, AtomicU64>,
}

impl Default for PlegMetrics {
    fn default() -> Self {
        let histogram = || Histogram::new(DEFAULT_BUCKETS);
        Self { duration: histogram(), interval: histogram(), last_seen: Gauge::default() }
    }
}

impl PlegMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_pleg_relist_duration_seconds",
            "Duration in seconds for relisting pods in PLEG",
            self.duration.clone(),
        );
        metrics.register(
            "kubelet_pleg_relist_interval_seconds",
            "Interval in seconds between relisting in PLEG",
            self.interval.clone(),
        );
        metrics.register(
            "kubelet_pleg_last_seen_seconds",
            "Timestamp in seconds when PLEG was last seen active",
            self.last_seen.clone(),
        );
    }

    /// Records a successful relist of everything: when it began, how long it took, and when the previous one began.
    pub(super) fn relisted(&self, began: Instant, took: Duration, before: Instant) {
        self.duration.observe(took.as_secs_f64());
        self.interval.observe(began.saturating_duration_since(before).as_secs_f64());
        self.last_seen.set(Timestamp::now().as_second() as f64);
    }
}
