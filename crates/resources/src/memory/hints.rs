//! From which NUMA nodes memory can be allocated. A node that containers use alone is not combined with others, and a combination that
//! containers use is not divided: so the kernel finds on its nodes what was allocated there.

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::demand::{Demand, check_shared, container_memory, pod_memory};
use super::grants::MemoryNodes;
use super::state::Block;
use crate::containers::{containers, has_own_resources, is_guaranteed};
use crate::machine::NumaMask;
use crate::topology::{Hint, ProviderHints, prefer_narrow};

impl MemoryNodes {
    /// What to hint for a container. Nothing if it has no memory for itself, or if there is too little, which is an error of the
    /// allocation, as upstream.
    pub fn hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        let demand = container_memory(pod, container, self.policy.pod_level).unwrap_or_default();
        if !is_guaranteed(pod) || demand.is_empty() || self.ignores(pod) {
            return ProviderHints::new();
        }
        match self.state.container(PodView::from(pod).uid, &container.name) {
            Some(own) => hints_of(own, &demand),
            None => self.hints_for(pod, &demand),
        }
    }

    /// What to hint for a pod as a whole.
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        let demand = pod_memory(pod, self.policy.pod_level).unwrap_or_default();
        if !is_guaranteed(pod) || self.ignores(pod) {
            return ProviderHints::new();
        }
        let uid = PodView::from(pod).uid;
        if self.policy.pod_level && has_own_resources(pod) {
            if check_shared(pod).is_err() {
                return demand.into_keys().map(|resource| (resource, Vec::new())).collect();
            }
            // Upstream compares the first container's memory with the pod's, and has no hints.
            if let Some(own) = self.state.pods.get(uid) {
                return hints_of(own, &demand);
            }
        }
        if demand.is_empty() {
            return ProviderHints::new();
        }
        let mut assigned = containers(pod).filter_map(|container| self.state.container(uid, &container.name));
        match assigned.next() {
            Some(own) => hints_of(own, &demand),
            None => self.hints_for(pod, &demand),
        }
    }

    /// Every combination of nodes from which all of this can be taken. Preferred are those of as few nodes as an empty machine would need.
    fn hints_for(&self, pod: &Pod, demand: &Demand) -> ProviderHints {
        let nodes: Vec<u32> = self.state.nodes.keys().copied().collect();
        let all = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let enough: Vec<NumaMask> =
            NumaMask::subsets(&nodes).filter(|mask| self.has_allocatable(*mask, demand)).collect();
        let fewest = enough.iter().map(|mask| mask.count()).min().map_or(all, |fewest| fewest.min(all));
        let fits = |mask: &NumaMask| self.may_be_used(*mask) && self.has_free(*mask, demand, Some(pod));
        let masks: Vec<NumaMask> = enough.into_iter().filter(fits).collect();
        if masks.is_empty() {
            return ProviderHints::new();
        }
        let hints = prefer_narrow(masks, fewest);
        demand.keys().map(|resource| (resource.clone(), hints.clone())).collect()
    }

    /// The best combination, among those that include these nodes; `None` if there is none.
    pub(super) fn best(&self, pod: &Pod, demand: &Demand, included: NumaMask) -> Option<Hint> {
        let hints = self.hints_for(pod, demand).remove(hostlet_base::resources::MEMORY)?;
        let including = |hint: &Hint| hint.nodes.is_some_and(|nodes| nodes.includes(included));
        let rank = |hint: &Hint| (!hint.preferred, hint.nodes.map(NumaMask::count), hint.nodes);
        hints.into_iter().filter(including).min_by_key(rank)
    }

    fn has_allocatable(&self, mask: NumaMask, demand: &Demand) -> bool {
        let allocatable = |resource: &str| {
            self.sum(mask, |node| node.memory_map.get(resource).map(|table| table.allocatable))
        };
        demand.iter().all(|(resource, bytes)| allocatable(resource) >= *bytes)
    }

    /// Whether nodes have this much free; for a pod that is being admitted together with what its init containers have.
    pub(super) fn has_free(&self, mask: NumaMask, demand: &Demand, pod: Option<&Pod>) -> bool {
        let free =
            |resource: &str| self.sum(mask, |node| node.memory_map.get(resource).map(|table| table.free));
        let reusable = |resource: &str| pod.map_or(0, |pod| self.reusable(pod, mask, resource));
        demand.iter().all(|(resource, bytes)| free(resource).saturating_add(reusable(resource)) >= *bytes)
    }

    /// Whether no node of a combination is used otherwise.
    fn may_be_used(&self, mask: NumaMask) -> bool {
        let mut nodes = mask.nodes().filter_map(|node| self.state.nodes.get(&node));
        if mask.count() == 1 {
            return nodes.all(|node| node.cells.len() <= 1);
        }
        !self.divides(mask)
    }

    /// Whether a combination has nodes that containers use alone or in other combinations.
    pub(super) fn divides(&self, mask: NumaMask) -> bool {
        let mut nodes = mask.nodes().filter_map(|node| self.state.nodes.get(&node));
        let is_used_otherwise =
            |cells: &[u32]| cells.len() == 1 || NumaMask::of(cells.iter().copied()) != mask;
        mask.count() > 1 && nodes.any(|node| node.number_of_assignments > 0 && is_used_otherwise(&node.cells))
    }

    fn sum(&self, mask: NumaMask, amount: impl Fn(&super::state::NodeMemory) -> Option<u64>) -> u64 {
        let nodes = mask.nodes().filter_map(|node| self.state.nodes.get(&node));
        nodes.filter_map(amount).fold(0, u64::saturating_add)
    }
}

/// The hints for memory that is allocated already; none if it is not what is needed.
fn hints_of(own: &[Block], demand: &Demand) -> ProviderHints {
    let is_needed = |block: &Block| demand.get(&block.resource) == Some(&block.size);
    if own.len() != demand.len() || !own.iter().all(is_needed) {
        return ProviderHints::new();
    }
    let hint =
        |block: &Block| (block.resource.clone(), vec![Hint { nodes: Some(block.nodes()), preferred: true }]);
    own.iter().map(hint).collect()
}
