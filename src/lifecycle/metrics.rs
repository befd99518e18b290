//! Metrics of lifecycles. The names are upstream's.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::telemetry::Metrics;

/// The metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LifecycleMetrics {
    restarted: Family<[(&'static str, &'static str); 1], Counter>,
    orphans: Counter,
}

impl LifecycleMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_restarted_pods",
            "Number of pods that have been restarted because they were deleted and recreated with the same UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)",
            self.restarted.clone(),
        );
        metrics.register(
            "kubelet_orphaned_runtime_pods",
            "Number of pods that have been detected in the container runtime without being already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the local configuration, which is unusual",
            self.orphans.clone(),
        );
    }

    /// Counts a pod that starts again with the UID under which it ended.
    pub(super) fn restarted(&self, is_static: bool) {
        self.restarted.get_or_create(&[("static", if is_static { "true" } else { "" })]).inc();
    }

    /// Counts a pod of the runtime that no source names.
    pub(super) fn orphan(&self) {
        self.orphans.inc();
    }
}
