//! Which CPUs are whose.

use std::collections::BTreeMap;

use crate::machine::CpuSet;

/// CPUs by container, by the UID of the pod.
pub(crate) type Assignments<T> = BTreeMap<String, BTreeMap<String, T>>;

/// Which CPUs are whose: what a restart must not lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuState {
    /// The CPUs of all containers that have none of their own.
    pub shared: CpuSet,
    /// The CPUs of containers that have their own; of a pod with resources of its own, those of all its containers.
    pub containers: Assignments<CpuSet>,
    /// The CPUs of pods with resources of their own.
    pub pods: BTreeMap<String, CpuSet>,
}

impl CpuState {
    /// The CPUs of a container, if it does not use the shared ones.
    pub fn container(&self, uid: &str, container: &str) -> Option<&CpuSet> {
        self.containers.get(uid)?.get(container)
    }

    /// All CPUs that are not shared.
    pub fn exclusive(&self) -> CpuSet {
        let containers = self.containers.values().flat_map(BTreeMap::values);
        containers.chain(self.pods.values()).fold(CpuSet::new(), |all, cpus| all.union(cpus))
    }

    pub(super) fn set(&mut self, uid: &str, container: &str, cpus: CpuSet) {
        self.containers.entry(uid.to_owned()).or_default().insert(container.to_owned(), cpus);
    }
}
