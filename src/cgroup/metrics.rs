//! How long operations on cgroups of pods take. The name, labels and buckets are upstream's.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use crate::telemetry::{DEFAULT_BUCKETS, Metrics};

/// An operation on the cgroup of a pod or of a QoS class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Destroy,
}

/// The operation.
type Label = [(&'static str, &'static str); 1];

/// The durations. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct CgroupMetrics(Family<Label, Histogram, fn() -> Histogram>);

impl Default for CgroupMetrics {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(DEFAULT_BUCKETS)))
    }
}

impl CgroupMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_cgroup_manager_duration_seconds",
            "Duration in seconds for cgroup manager operations. Broken down by method",
            self.0.clone(),
        );
    }

    /// Observes an operation that began at this time.
    pub(super) fn ended(&self, operation: Operation, began: Instant) {
        let name = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Destroy => "destroy",
        };
        self.0.get_or_create(&[("operation_type", name)]).observe(began.elapsed().as_secs_f64());
    }
}
