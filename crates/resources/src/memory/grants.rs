//! The memory that containers have for themselves, by NUMA node.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::demand::container_memory;
use super::policy::StaticMemory;
use super::state::{Block, MemoryState};
use crate::containers::{has_own_resources, init_containers, is_sidecar};
use crate::machine::NumaMask;

/// Bytes by nodes and resource.
pub(super) type Reusable = BTreeMap<(NumaMask, String), u64>;

/// The memory of all containers. A plain value: try on a copy, and keep the copy if everything else agrees.
#[derive(Clone, Debug)]
pub struct MemoryNodes {
    pub(super) policy: Arc<StaticMemory>,
    pub(super) state: MemoryState,
    /// Memory of init containers of the pod that is being admitted, which its later containers may use.
    pub(super) reusable: Option<(String, Reusable)>,
}

impl MemoryNodes {
    /// No container has memory for itself.
    pub fn new(policy: Arc<StaticMemory>) -> Self {
        let state = MemoryState { nodes: policy.empty_nodes(), ..MemoryState::default() };
        Self { policy, state, reusable: None }
    }

    /// What a restart must not lose.
    pub fn state(&self) -> &MemoryState {
        &self.state
    }

    /// The nodes from which a container gets its memory; `None` if from any.
    pub fn nodes(&self, uid: &str, container: &str) -> Option<NumaMask> {
        let blocks = self.state.container(uid, container)?;
        let nodes = NumaMask::of(blocks.iter().flat_map(|block| block.numa_affinity.iter().copied()));
        (!nodes.is_empty()).then_some(nodes)
    }

    /// Whether a container has memory that no other one uses.
    pub fn is_exclusive(&self, pod: &Pod, container: &Container) -> bool {
        let has_memory = self.state.container(PodView::from(pod).uid, &container.name).is_some();
        // Of a pod with memory of its own, containers may share that.
        has_memory && container_memory(pod, container, self.policy.pod_level).is_ok_and(|own| !own.is_empty())
    }

    /// What containers can have, on each node.
    pub fn allocatable(&self) -> Vec<Block> {
        let tables = self.state.nodes.iter().flat_map(|(node, memory)| {
            memory.memory_map.iter().map(move |(resource, table)| (*node, resource, table.allocatable))
        });
        let blocks = tables.filter(|(.., allocatable)| *allocatable > 0);
        blocks
            .map(|(node, resource, allocatable)| Block::new(NumaMask::of([node]), resource, allocatable))
            .collect()
    }

    /// Releases the memory of a pod.
    pub fn release(&mut self, uid: &str) {
        let containers = self.state.containers.remove(uid).unwrap_or_default();
        // The containers of a pod with memory of its own have parts of that.
        let blocks = match self.state.pods.remove(uid) {
            Some(own) => own,
            None => containers.into_values().flatten().collect(),
        };
        for block in &blocks {
            self.state.give_back(block);
        }
    }

    /// Releases the memory of a container that has ended for good. That of a pod with memory of its own is released with its last
    /// container.
    pub fn release_container(&mut self, uid: &str, container: &str) {
        let Some(containers) = self.state.containers.get_mut(uid) else { return };
        let Some(blocks) = containers.remove(container) else { return };
        let is_last = containers.is_empty();
        if !self.state.pods.contains_key(uid) {
            for block in &blocks {
                self.state.give_back(block);
            }
        }
        if is_last {
            self.release(uid);
        }
    }

    /// Releases the memory of init containers that ended before this container starts.
    pub fn release_before(&mut self, pod: &Pod, container: &str) {
        let before = init_containers(pod).iter().take_while(|init| init.name != container);
        for ended in before.filter(|init| !is_sidecar(init)) {
            self.release_container(PodView::from(pod).uid, &ended.name);
        }
    }

    /// Whether a pod has resources of its own that are not supported; its containers share memory.
    pub(super) fn ignores(&self, pod: &Pod) -> bool {
        !self.policy.pod_level && has_own_resources(pod)
    }
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
