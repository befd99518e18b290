//! Metrics of the memory that cgroups protect (KEP-2570). The names are upstream's.

use prometheus_client::metrics::gauge::Gauge;

use crate::cgroup::ClassResources;
use crate::telemetry::Metrics;

/// The metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ProtectedMemory {
    min: Gauge,
    low: Gauge,
}

impl ProtectedMemory {
    /// Registers them; only with the feature gate `MemoryQoS`.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_memory_qos_node_memory_min_bytes",
            "Total cgroup v2 memory.min (hard protection) for Guaranteed pods on the node in bytes",
            self.min.clone(),
        );
        metrics.register(
            "kubelet_memory_qos_node_memory_low_bytes",
            "Total cgroup v2 memory.low (soft protection) for Burstable pods on the node in bytes",
            self.low.clone(),
        );
    }

    /// What the classes get. The memory of all pods includes that of burstable ones.
    pub(super) fn set(&self, resources: &ClassResources) {
        let burstable = resources.burstable_memory.low;
        self.min.set(resources.all_memory.min - burstable);
        self.low.set(burstable);
    }
}
