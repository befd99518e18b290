//! Metrics of writes to the store's file.

use std::time::Duration;

use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::Store;

#[derive(Debug)]
pub(super) struct WriteMetrics {
    duration: Histogram,
    errors: Counter,
}

impl Default for WriteMetrics {
    fn default() -> Self {
        Self { duration: Histogram::new(DEFAULT_BUCKETS), errors: Counter::default() }
    }
}

impl WriteMetrics {
    pub(super) fn written(&self, took: Duration, has_succeeded: bool) {
        self.duration.observe(took.as_secs_f64());
        if !has_succeeded {
            self.errors.inc();
        }
    }
}

impl Store {
    /// Registers the store's metrics.
    pub fn register(&self, metrics: &Metrics) {
        let own = self.write_metrics();
        metrics.register(
            "hostlet_store_write_duration_seconds",
            "Duration in seconds of writes to the local store, including failed ones",
            own.duration.clone(),
        );
        metrics.register(
            "hostlet_store_write_errors",
            "Number of failed writes to the local store",
            own.errors.clone(),
        );
    }
}
