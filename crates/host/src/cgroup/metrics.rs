//! How long operations on cgroups of pods take. The name, labels and buckets are upstream's.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};

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

    /// Performs an operation, and observes how long it took. As upstream, one that fails counts too.
    pub(super) fn timed<T>(&self, operation: Operation, work: impl FnOnce() -> T) -> T {
        let name = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Destroy => "destroy",
        };
        let began = Instant::now();
        let done = work();
        self.0.get_or_create(&[("operation_type", name)]).observe(began.elapsed().as_secs_f64());
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_fails_counts_too() {
        let (metrics, durations) = (Metrics::default(), CgroupMetrics::default());
        durations.register(&metrics);
        assert_eq!(durations.timed(Operation::Destroy, || Err::<(), _>("busy")), Err("busy"));
        let counted = "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"destroy\"} 1\n";
        assert!(metrics.encode().contains(counted), "{}", metrics.encode());
    }
}
