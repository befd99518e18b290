//! Metrics of runtime calls: counts and durations, with upstream's names and buckets (`kubelet_runtime_operations_*`).

use std::time::Duration;

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::Operation;

type OperationType = [(&'static str, &'static str); 1];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct CallMetrics {
    calls: Family<OperationType, Counter>,
    errors: Family<OperationType, Counter>,
    duration: Family<OperationType, Histogram>,
}

impl Default for CallMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.005, 2.5, 14));
        Self {
            calls: Family::default(),
            errors: Family::default(),
            duration: Family::new_with_constructor(histogram),
        }
    }
}

impl CallMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_runtime_operations",
            "Cumulative number of runtime operations by operation type",
            self.calls.clone(),
        );
        metrics.register(
            "kubelet_runtime_operations_errors",
            "Cumulative number of runtime operation errors by operation type",
            self.errors.clone(),
        );
        metrics.register(
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations, broken down by operation type",
            self.duration.clone(),
        );
    }

    /// Records a finished call.
    pub(super) fn ended(&self, operation: Operation, took: Duration, has_failed: bool) {
        let of_type = [("operation_type", operation.as_str())];
        self.calls.get_or_create(&of_type).inc();
        if has_failed {
            self.errors.get_or_create(&of_type).inc();
        }
        self.duration.get_or_create(&of_type).observe(took.as_secs_f64());
    }
}
