//! From which NUMA nodes CPUs can be allocated.

use std::collections::BTreeMap;

use hostlet_base::resources::CPU;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::demand::{check_shared, container_cpus, pod_cpus};
use super::grants::Cpus;
use super::policy::StaticCpus;
use crate::containers::{containers, has_own_resources};
use crate::machine::{CpuSet, Level, NumaMask};
use crate::topology::{Hint, ProviderHints};

impl Cpus {
    /// What to hint for a container. Nothing if it shares CPUs.
    pub fn hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        let requested = container_cpus(pod, container, self.policy.pod_level);
        if requested == 0 || self.ignores(pod) {
            return ProviderHints::new();
        }
        let uid = PodView::from(pod).uid;
        only(match self.state.container(uid, &container.name) {
            Some(own) if own.len() != requested => Vec::new(),
            Some(own) => self.policy.hints(own, &CpuSet::new(), requested),
            None => self.policy.hints(&self.free(), &self.reusable(uid), requested),
        })
    }

    /// What to hint for a pod as a whole.
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        let requested = pod_cpus(pod, self.policy.pod_level);
        if requested == 0 || self.ignores(pod) {
            return ProviderHints::new();
        }
        let uid = PodView::from(pod).uid;
        if self.policy.pod_level && has_own_resources(pod) {
            if check_shared(pod).is_err() {
                return only(Vec::new());
            }
            // Upstream compares the CPUs of containers that share with their requests, and rejects the pod.
            if let Some(own) = self.state.pods.get(uid) {
                let fits = own.len() == requested;
                return only(if fits {
                    self.policy.hints(own, &CpuSet::new(), requested)
                } else {
                    Vec::new()
                });
            }
        }
        let mut assigned = CpuSet::new();
        for container in containers(pod) {
            let Some(own) = self.state.container(uid, &container.name) else { continue };
            if own.len() != container_cpus(pod, container, self.policy.pod_level) {
                return only(Vec::new());
            }
            assigned = assigned.union(own);
        }
        if assigned.len() == requested {
            return only(self.policy.hints(&assigned, &CpuSet::new(), requested));
        }
        only(self.policy.hints(&self.free(), &self.reusable(uid).union(&assigned), requested))
    }

    /// Whether a pod has resources of its own that are not supported; its containers share CPUs.
    pub(super) fn ignores(&self, pod: &Pod) -> bool {
        !self.policy.pod_level && has_own_resources(pod)
    }
}

fn only(hints: Vec<Hint>) -> ProviderHints {
    BTreeMap::from([(CPU.to_owned(), hints)])
}

impl StaticCpus {
    /// Every combination of nodes from which this many CPUs can be taken, all reusable ones among them. Preferred are those of as few
    /// nodes as an empty machine would need.
    fn hints(&self, available: &CpuSet, reusable: &CpuSet, requested: usize) -> Vec<Hint> {
        let count = |cpus: &CpuSet| self.machine.count(cpus, Level::Node);
        let (all, available, reusable) = (count(&self.machine.all_cpus()), count(available), count(reusable));
        let sum = |counts: &BTreeMap<u32, usize>, mask: NumaMask| -> usize {
            mask.nodes().filter_map(|node| counts.get(&node)).sum()
        };
        let nodes: Vec<u32> = all.keys().copied().collect();
        let reused = NumaMask::of(reusable.keys().copied());
        let enough = NumaMask::subsets(&nodes).filter(|mask| sum(&all, *mask) >= requested);
        let all_nodes = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let fewest = enough.map(NumaMask::count).min().map_or(all_nodes, |fewest| fewest.min(all_nodes));
        let fits = |mask: &NumaMask| {
            mask.includes(reused) && sum(&available, *mask) + sum(&reusable, *mask) >= requested
        };
        let hint = |mask: NumaMask| {
            let is_aligned = self.options.align_by_socket && self.is_aligned_by_socket(mask, fewest);
            Hint { nodes: Some(mask), preferred: is_aligned || mask.count() == fewest }
        };
        NumaMask::subsets(&nodes).filter(fits).map(hint).collect()
    }

    /// Whether nodes are of as few sockets as are needed for this many nodes.
    fn is_aligned_by_socket(&self, mask: NumaMask, fewest: u32) -> bool {
        let (nodes, sockets) = (self.machine.nodes_with_cpus().len(), self.machine.sockets().len());
        let per_socket = nodes.checked_div(sockets).unwrap_or_default();
        let Some(needed) =
            (fewest as usize + per_socket).checked_sub(1).and_then(|sum| sum.checked_div(per_socket))
        else {
            return false;
        };
        self.sockets_of(mask).len() == needed
    }

    /// The sockets of nodes.
    pub(super) fn sockets_of(&self, mask: NumaMask) -> std::collections::BTreeSet<u32> {
        let cpus = self.machine.within(&self.machine.all_cpus(), Level::Node, &mask.nodes().collect());
        self.machine.count(&cpus, Level::Socket).into_keys().collect()
    }
}
