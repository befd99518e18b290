//! The memory of all pods that their cgroup protects (KEP-2570), and metrics of it with upstream's names.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use hostlet_base::MemoryProtection;
use hostlet_host::cgroup::{CgroupError, Cgroups, ClassResources};
use hostlet_telemetry::Metrics;

/// What is protected. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtectedMemory {
    min: Gauge,
    low: Gauge,
    /// What the cgroup of all pods accepted last.
    accepted: Arc<Mutex<Option<MemoryProtection>>>,
}

impl ProtectedMemory {
    /// Registers the metrics; only with the feature gate `MemoryQoS`.
    pub(crate) fn register(&self, metrics: &Metrics) {
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

    /// Protects the memory of all pods: like their limit, again only when it changes. Blocking.
    pub(super) fn protect(&self, cgroups: &Cgroups, memory: MemoryProtection) -> Result<(), CgroupError> {
        let mut accepted = self.accepted.lock();
        if *accepted != Some(memory) {
            cgroups.protect_all_pods(memory)?;
            *accepted = Some(memory);
        }
        Ok(())
    }

    /// What the classes get. The memory of all pods includes the memory of burstable ones.
    pub(super) fn set(&self, resources: &ClassResources) {
        let burstable = resources.burstable_memory.low;
        self.min.set(resources.all_memory.min - burstable);
        self.low.set(burstable);
    }
}
