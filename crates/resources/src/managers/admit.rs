//! The admission of a pod: hints of everything, the choice of nodes, and the grants. In upstream's order: devices, CPUs, memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_pod::Rejection;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::Pod;

use super::provider::Provider;
use crate::containers::{containers, has_own_resources};
use crate::cpus::Cpus;
use crate::error::GrantError;
use crate::memory::MemoryNodes;
use crate::topology::{Hint, ProviderHints, Topology, TopologyPolicy, TopologyScope};

/// What never changes while the daemon runs.
#[derive(Clone, Debug)]
pub struct StaticManagers {
    /// How NUMA nodes are chosen.
    pub topology: Topology,
    /// Feature gate `PodLevelResourceManagers`.
    pub pod_level: bool,
}

/// CPUs and memory of all containers. A plain value: nothing is granted until [`admit`](Self::admit) returns the next one.
#[derive(Clone, Debug)]
pub struct Managers {
    policy: Arc<StaticManagers>,
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

    /// Grants a pod and its containers what they need, `devices` first. On rejection nothing of this value changes; `devices` is to be
    /// thrown away. Returns the nodes that were chosen for each container.
    pub fn admit(
        &mut self,
        pod: &Pod,
        devices: &mut dyn Provider,
    ) -> Result<BTreeMap<String, Hint>, Rejection> {
        let mut next = self.clone();
        let hints = match (self.policy.topology.policy(), self.policy.topology.scope()) {
            (TopologyPolicy::None, _) => next.admit_anywhere(pod, devices),
            (_, TopologyScope::Container) => next.admit_containers(pod, devices),
            (_, TopologyScope::Pod) => next.admit_pod(pod, devices),
        }?;
        *self = next;
        Ok(hints)
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

    /// Releases what a container has that ended for good.
    pub fn release_container(&mut self, uid: &str, container: &str) {
        if let Some(cpus) = &mut self.cpus {
            cpus.release_container(uid, container);
        }
        if let Some(memory) = &mut self.memory {
            memory.release_container(uid, container);
        }
    }

    fn admit_anywhere(
        &mut self,
        pod: &Pod,
        devices: &mut dyn Provider,
    ) -> Result<BTreeMap<String, Hint>, Rejection> {
        for container in containers(pod) {
            each(self, devices, |provider| provider.allocate(pod, container, Hint::default()))?;
        }
        Ok(BTreeMap::new())
    }

    fn admit_containers(
        &mut self,
        pod: &Pod,
        devices: &mut dyn Provider,
    ) -> Result<BTreeMap<String, Hint>, Rejection> {
        let mut chosen = BTreeMap::new();
        for container in containers(pod) {
            let hint = self.choose(devices, |provider| provider.hints(pod, container));
            let hint = hint.ok_or_else(|| {
                let own =
                    "pod with pod-level resources failed admission with a container-level topology manager";
                self.no_locality(pod, own)
            })?;
            each(self, devices, |provider| provider.allocate(pod, container, hint))?;
            chosen.insert(container.name.clone(), hint);
        }
        Ok(chosen)
    }

    fn admit_pod(
        &mut self,
        pod: &Pod,
        devices: &mut dyn Provider,
    ) -> Result<BTreeMap<String, Hint>, Rejection> {
        let hint = self.choose(devices, |provider| provider.pod_hints(pod));
        let hint = hint.ok_or_else(|| {
            let own = "pod with pod-level resources failed admission under pod-scope topology manager";
            self.no_locality(pod, own)
        })?;
        if self.policy.pod_level && has_own_resources(pod) {
            each(self, devices, |provider| provider.allocate_pod(pod, hint))?;
        } else {
            for container in containers(pod) {
                each(self, devices, |provider| provider.allocate(pod, container, hint))?;
            }
        }
        Ok(containers(pod).map(|container| (container.name.clone(), hint)).collect())
    }

    /// The best nodes for all providers; `None` if the policy rejects them.
    fn choose(&self, devices: &dyn Provider, hints: impl Fn(&dyn Provider) -> ProviderHints) -> Option<Hint> {
        let mut all = vec![hints(devices)];
        all.extend(self.cpus.iter().map(|cpus| hints(cpus)));
        all.extend(self.memory.iter().map(|memory| hints(memory)));
        let (hint, is_admitted) = self.policy.topology.merge(&all);
        is_admitted.then_some(hint)
    }

    fn no_locality(&self, pod: &Pod, with_own_resources: &'static str) -> Rejection {
        let is_own = self.policy.pod_level && has_own_resources(pod);
        let error =
            if is_own { GrantError::NoPodLocality(with_own_resources) } else { GrantError::NoLocality };
        error.rejection()
    }

    /// The CPUs on which a container is to run; `None` if on any.
    pub fn cpu_list(&self, pod: &Pod, container: &str) -> Option<String> {
        let cpus = self.cpus.as_ref()?;
        Some(cpus.assignment(PodView::from(pod).uid, container).to_string())
    }

    /// The NUMA nodes whose memory a container is to use, as a list; `None` if of any.
    pub fn memory_list(&self, pod: &Pod, container: &str) -> Option<String> {
        let nodes = self.memory.as_ref()?.nodes(PodView::from(pod).uid, container)?;
        Some(crate::machine::CpuSet::from_iter(nodes.nodes()).to_string())
    }
}

/// Calls every provider in order, until one fails.
fn each(
    managers: &mut Managers,
    devices: &mut dyn Provider,
    mut f: impl FnMut(&mut dyn Provider) -> Result<(), Rejection>,
) -> Result<(), Rejection> {
    f(devices)?;
    if let Some(cpus) = &mut managers.cpus {
        f(cpus)?;
    }
    match &mut managers.memory {
        Some(memory) => f(memory),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
