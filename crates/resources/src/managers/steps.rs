//! The steps of a grant, between which devices are allocated elsewhere: which NUMA nodes suit, then what is granted on them. In upstream's
//! order: the hints of devices, CPUs, memory; then the devices, then CPUs and memory ([`Managers::grant_cpus`], [`Managers::grant_memory`]).

use std::collections::BTreeSet;

use hostlet_pod::Rejection;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::Managers;
use crate::containers::has_own_resources;
use crate::error::GrantError;
use crate::topology::{Hint, ProviderHints, TopologyPolicy, TopologyScope};

/// For what NUMA nodes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantScope {
    /// For nothing: any will do.
    Anywhere,
    /// For each container.
    Container,
    /// For the pod as a whole.
    Pod,
}

impl Managers {
    /// For what NUMA nodes are chosen.
    pub fn scope(&self) -> GrantScope {
        match (self.policy.topology.policy(), self.policy.topology.scope()) {
            (TopologyPolicy::None, _) => GrantScope::Anywhere,
            (_, TopologyScope::Container) => GrantScope::Container,
            (_, TopologyScope::Pod) => GrantScope::Pod,
        }
    }

    /// Whether a pod is rejected rather than given resources of several NUMA nodes (upstream `IsAlignmentGuaranteed`).
    pub fn guarantees_alignment(&self) -> bool {
        self.policy.topology.policy() == TopologyPolicy::SingleNumaNode
    }

    /// Whether a pod is granted what it needs as a whole ([`Managers::grant_pod_cpus`], [`Managers::grant_pod_memory`]) where the scope is the pod.
    pub fn is_whole(&self, pod: &Pod) -> bool {
        self.policy.pod_level && has_own_resources(pod)
    }

    /// The nodes for a container, whose devices are hinted.
    pub fn choose(
        &self,
        pod: &Pod,
        container: &Container,
        devices: ProviderHints,
    ) -> Result<Hint, Rejection> {
        let cpus = self.cpus.as_ref().map(|cpus| cpus.hints(pod, container));
        let memory = self.memory.as_ref().map(|memory| memory.hints(pod, container));
        let own = "pod with pod-level resources failed admission with a container-level topology manager";
        self.merged([Some(devices), cpus, memory]).ok_or_else(|| self.no_locality(pod, own))
    }

    /// The nodes for a pod, whose devices are hinted.
    pub fn choose_for_pod(&self, pod: &Pod, devices: ProviderHints) -> Result<Hint, Rejection> {
        let cpus = self.cpus.as_ref().map(|cpus| cpus.pod_hints(pod));
        let memory = self.memory.as_ref().map(|memory| memory.pod_hints(pod));
        let own = "pod with pod-level resources failed admission under pod-scope topology manager";
        self.merged([Some(devices), cpus, memory]).ok_or_else(|| self.no_locality(pod, own))
    }

    /// Grants a container CPUs, of these nodes if that is possible. Returns whether it has some for itself.
    pub fn grant_cpus(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<bool, Rejection> {
        let Some(cpus) = &mut self.cpus else { return Ok(false) };
        cpus.allocate(pod, container, hint).map_err(|error| error.rejection())?;
        Ok(cpus.state().container(PodView::from(pod).uid, &container.name).is_some())
    }

    /// Grants a container memory, of these nodes if that is possible. Returns whether it has some for itself.
    pub fn grant_memory(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<bool, Rejection> {
        let Some(memory) = &mut self.memory else { return Ok(false) };
        memory.allocate(pod, container, hint).map_err(|error| error.rejection())?;
        Ok(memory.state().container(PodView::from(pod).uid, &container.name).is_some())
    }

    /// Grants a pod with resources of its own, and all its containers, CPUs. Returns whether it has some for itself.
    pub fn grant_pod_cpus(&mut self, pod: &Pod, hint: Hint) -> Result<bool, Rejection> {
        let Some(cpus) = &mut self.cpus else { return Ok(false) };
        cpus.allocate_pod(pod, hint).map_err(|error| error.rejection())?;
        Ok(cpus.state().pods.contains_key(PodView::from(pod).uid))
    }

    /// Grants a pod with resources of its own, and all its containers, memory. Returns whether it has some for itself.
    pub fn grant_pod_memory(&mut self, pod: &Pod, hint: Hint) -> Result<bool, Rejection> {
        let Some(memory) = &mut self.memory else { return Ok(false) };
        memory.allocate_pod(pod, hint).map_err(|error| error.rejection())?;
        Ok(memory.state().pods.contains_key(PodView::from(pod).uid))
    }

    /// Releases what all pods but these have. Returns whether that was anything.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) -> bool {
        let removed: BTreeSet<String> = self.holders().filter(|uid| !is_kept(uid)).collect();
        removed.iter().for_each(|uid| self.release(uid));
        !removed.is_empty()
    }

    /// The pods that have something.
    fn holders(&self) -> impl Iterator<Item = String> + '_ {
        let cpus = self.cpus.iter().flat_map(|cpus| {
            let state = cpus.state();
            state.containers.keys().chain(state.pods.keys())
        });
        let memory = self.memory.iter().flat_map(|memory| {
            let state = memory.state();
            state.containers.keys().chain(state.pods.keys())
        });
        cpus.chain(memory).cloned()
    }

    fn merged(&self, hints: [Option<ProviderHints>; 3]) -> Option<Hint> {
        let hints: Vec<ProviderHints> = hints.into_iter().flatten().collect();
        let (hint, is_admitted) = self.policy.topology.merge(&hints);
        is_admitted.then_some(hint)
    }

    fn no_locality(&self, pod: &Pod, with_own_resources: &'static str) -> Rejection {
        let error = match self.is_whole(pod) {
            true => GrantError::NoPodLocality(with_own_resources),
            false => GrantError::NoLocality,
        };
        error.rejection()
    }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
