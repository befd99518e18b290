//! The CPUs that containers have for themselves, and those that the others share.

use std::sync::Arc;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::demand::qualifies_alone;
use super::policy::StaticCpus;
use super::state::CpuState;
use crate::containers::{containers, has_own_resources};
use crate::machine::{CpuSet, Level, Machine};

/// The CPUs of all containers. A plain value: try on a copy, and keep the copy if everything else agrees.
#[derive(Clone, Debug)]
pub struct Cpus {
    pub(super) policy: Arc<StaticCpus>,
    pub(super) state: CpuState,
    /// CPUs of init containers of the pod that is being admitted, which its later containers may use.
    pub(super) reusable: Option<(String, CpuSet)>,
}

impl Cpus {
    /// No container has CPUs for itself.
    pub fn new(policy: Arc<StaticCpus>) -> Self {
        let state = CpuState { shared: policy.usable(), ..CpuState::default() };
        Self::with(policy, state)
    }

    pub(super) fn with(policy: Arc<StaticCpus>, state: CpuState) -> Self {
        Self { policy, state, reusable: None }
    }

    /// What a restart must not lose.
    pub fn state(&self) -> &CpuState {
        &self.state
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        self.policy.machine()
    }

    /// The CPUs on which a container runs: its own, or the shared ones.
    pub fn assignment(&self, uid: &str, container: &str) -> CpuSet {
        self.state.container(uid, container).cloned().unwrap_or_else(|| self.shared())
    }

    /// Whether a container has CPUs that no other one uses. Its time on them is not limited then (CFS quota, upstream
    /// `ContainerHasExclusiveCPUs`).
    pub fn is_exclusive(&self, pod: &Pod, container: &str) -> bool {
        let has_cpus = self.state.container(PodView::from(pod).uid, container).is_some();
        // Of a pod with CPUs of its own, containers may share these.
        let mut named = containers(pod).filter(|known| known.name == container);
        has_cpus && (!self.has_own(pod) || named.any(qualifies_alone))
    }

    /// Whether the time of a pod as a whole is not limited: one of its containers has CPUs for itself, or if the pod has CPUs of its own,
    /// all of them (upstream `PodHasExclusiveCPUs`).
    pub fn is_unlimited(&self, pod: &Pod) -> bool {
        let mut containers = containers(pod);
        let is_exclusive = |container: &Container| self.is_exclusive(pod, &container.name);
        if self.has_own(pod) { containers.all(is_exclusive) } else { containers.any(is_exclusive) }
    }

    /// Whether a pod has CPUs of its own, which containers may share.
    fn has_own(&self, pod: &Pod) -> bool {
        self.policy.pod_level && has_own_resources(pod)
    }

    /// Whether CPUs share a last-level cache (upstream `isAlignedAtUncoreCache`).
    pub fn share_cache(&self, cpus: &CpuSet) -> bool {
        let caches = self.policy.machine.count(cpus, Level::Cache);
        cpus.len() <= 1 || (caches.len() == 1 && caches.values().sum::<usize>() == cpus.len())
    }

    /// The CPUs on which containers without own CPUs run: all of the machine's, if nothing else is left.
    pub fn shared(&self) -> CpuSet {
        if self.state.shared.is_empty() { self.policy.machine.all_cpus() } else { self.state.shared.clone() }
    }

    /// The CPUs that containers can have for themselves.
    pub fn allocatable(&self) -> CpuSet {
        self.policy.machine.all_cpus().difference(&self.policy.reserved)
    }

    /// Releases the CPUs of a pod.
    pub fn release(&mut self, uid: &str) {
        let containers = self.state.containers.remove(uid).unwrap_or_default();
        let own = self.state.pods.remove(uid).unwrap_or_default();
        self.share(&containers.values().fold(own, |all, cpus| all.union(cpus)));
    }

    /// Releases the CPUs of a container that has ended for good. Those of a pod with CPUs of its own are released with its last container,
    /// those that other containers of the pod use as well with the last of these.
    pub fn release_container(&mut self, uid: &str, container: &str) {
        let Some(containers) = self.state.containers.get_mut(uid) else { return };
        let Some(released) = containers.remove(container) else { return };
        let in_use = containers.values().fold(CpuSet::new(), |all, cpus| all.union(cpus));
        if containers.is_empty() {
            self.release(uid);
        }
        if !self.state.pods.contains_key(uid) {
            self.share(&released.difference(&in_use));
        }
    }

    /// Makes CPUs shared ones. A CPU that was reserved, or removed from the machine, while a container had it is not shared.
    fn share(&mut self, released: &CpuSet) {
        self.state.shared = self.state.shared.union(&released.intersection(&self.policy.usable()));
    }

    /// The CPUs that the next container can have for itself.
    pub fn free(&self) -> CpuSet {
        self.state.shared.difference(&self.policy.reserved)
    }

    /// The CPUs of init containers of a pod that its next container can use.
    pub(super) fn reusable(&self, uid: &str) -> CpuSet {
        let own = self.reusable.as_ref().filter(|(pod, _)| pod == uid);
        own.map(|(_, cpus)| cpus.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
