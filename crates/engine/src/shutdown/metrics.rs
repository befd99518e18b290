//! Metrics of shutdowns: when the last one began and ended. The names are upstream's.

use std::sync::atomic::AtomicU64;

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::gauge::Gauge;

use super::record::ShutdownTimes;

/// The times of the last shutdown, in seconds since the epoch; zero if there was none.
#[derive(Clone, Debug, Default)]
pub(super) struct ShutdownMetrics {
    start: Gauge<f64, AtomicU64>,
    end: Gauge<f64, AtomicU64>,
}

impl ShutdownMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_graceful_shutdown_start_time_seconds",
            "Last graceful shutdown start time since unix epoch in seconds",
            self.start.clone(),
        );
        metrics.register(
            "kubelet_graceful_shutdown_end_time_seconds",
            "Last graceful shutdown end time since unix epoch in seconds",
            self.end.clone(),
        );
    }

    pub(super) fn set(&self, times: &ShutdownTimes) {
        let seconds = |time: Option<jiff::Timestamp>| time.map_or(0, jiff::Timestamp::as_second);
        let set = |gauge: &Gauge<f64, AtomicU64>, time| gauge.set(seconds(time) as f64);
        set(&self.start, times.start);
        set(&self.end, times.end);
    }
}
