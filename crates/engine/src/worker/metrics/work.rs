//! Metrics of the work on pods. The names, labels and buckets are upstream's.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use hostlet_pod::AdmittedPod;
use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};

/// What work does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum WorkKind {
    /// The first sync of a pod.
    Create,
    /// The first sync after its source changed it.
    Update,
    /// Another sync, or the release of its resources.
    Sync,
    /// Its containers are stopped.
    Kill,
}

impl WorkKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
        }
    }
}

/// The kind of work.
type Label = [(&'static str, &'static str); 1];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::worker) struct WorkMetrics {
    durations: Family<Label, Histogram, fn() -> Histogram>,
    waits: Histogram,
    containers: Histogram,
}

impl Default for WorkMetrics {
    fn default() -> Self {
        Self {
            durations: Family::new_with_constructor(|| Histogram::new(DEFAULT_BUCKETS)),
            waits: Histogram::new(DEFAULT_BUCKETS),
            containers: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
        }
    }
}

impl WorkMetrics {
    /// Registers them.
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_pod_worker_duration_seconds",
            "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
            self.durations.clone(),
        );
        metrics.register(
            "kubelet_pod_worker_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod to starting a worker",
            self.waits.clone(),
        );
        metrics.register(
            "kubelet_containers_per_pod_count",
            "The number of containers per pod",
            self.containers.clone(),
        );
    }

    /// Observes the first work on a pod of which nothing runs yet.
    pub(in crate::worker) fn began(&self, pod: &AdmittedPod, now: Timestamp) {
        self.containers.observe(pod.main_containers().count() as f64);
        if let Some(seen) = pod.seen_at {
            self.waits
                .observe(Duration::try_from(now.duration_since(seen)).unwrap_or_default().as_secs_f64());
        }
    }

    /// Observes work that ended.
    pub(in crate::worker) fn ended(&self, kind: WorkKind, took: Duration) {
        self.durations.get_or_create(&[("operation_type", kind.as_str())]).observe(took.as_secs_f64());
    }
}
