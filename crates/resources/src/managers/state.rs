//! CPUs and memory of all containers, as one value. `steps` grants them.

use std::sync::Arc;

use crate::cpus::Cpus;
use crate::memory::MemoryNodes;
use crate::topology::Topology;

/// What never changes while the daemon runs.
#[derive(Clone, Debug)]
pub struct StaticManagers {
    /// How NUMA nodes are chosen.
    pub topology: Topology,
    /// Feature gate `PodLevelResourceManagers`.
    pub pod_level: bool,
}

/// CPUs and memory of all containers. A plain value: try grants on a copy, and keep it if everything else agrees.
#[derive(Clone, Debug)]
pub struct Managers {
    pub(super) policy: Arc<StaticManagers>,
    /// The CPUs; `None` with the policy `none`.
    pub cpus: Option<Cpus>,
    /// The memory; `None` with the policy `None`.
    pub memory: Option<MemoryNodes>,
}

impl Managers {
    /// Managers with these states.
    pub fn new(policy: Arc<StaticManagers>, cpus: Option<Cpus>, memory: Option<MemoryNodes>) -> Self {
        Self { policy, cpus, memory }
    }

    /// Releases what a pod has.
    pub fn release(&mut self, uid: &str) {
        if let Some(cpus) = &mut self.cpus {
            cpus.release(uid);
        }
        if let Some(memory) = &mut self.memory {
            memory.release(uid);
        }
    }

    /// Releases what a container has that ended for good. Returns whether that was anything.
    pub fn release_container(&mut self, uid: &str, container: &str) -> bool {
        let mut has_any = false;
        if let Some(cpus) = &mut self.cpus {
            has_any |= cpus.state().container(uid, container).is_some();
            cpus.release_container(uid, container);
        }
        if let Some(memory) = &mut self.memory {
            has_any |= memory.state().container(uid, container).is_some();
            memory.release_container(uid, container);
        }
        has_any
    }
}
