//! The static policy on a machine: what never changes while the daemon runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::resources::{HUGE_PAGES, MEMORY};
use hostlet_base::{Quantity, ResourceList};

use super::reservation::{MemoryPolicyError, Reserved, ReservedMemory, reserved};
use super::state::{MemoryTable, NodeMemory};
use crate::machine::{Machine, NumaNode};
use crate::topology::MAX_NUMA_NODES;

/// The static policy on a machine.
#[derive(Clone, Debug)]
pub struct StaticMemory {
    machine: Arc<Machine>,
    reserved: Reserved,
    /// Feature gate `PodLevelResourceManagers`: whether pods with resources of their own have memory for themselves.
    pub(super) pod_level: bool,
}

impl StaticMemory {
    /// Prepares the policy for a machine of whose node this much is reserved: for the kubelet, for the system, and before eviction.
    pub fn new(
        machine: Arc<Machine>,
        node: &ResourceList,
        reservations: &[ReservedMemory],
        pod_level: bool,
    ) -> Result<Self, MemoryPolicyError> {
        if machine.nodes.len() > MAX_NUMA_NODES {
            return Err(MemoryPolicyError::TooManyNodes(MAX_NUMA_NODES));
        }
        let reserved = reserved(&machine, node, reservations)?;
        Ok(Self { machine, reserved, pod_level })
    }

    /// The nodes while no container has memory for itself.
    pub(super) fn empty_nodes(&self) -> BTreeMap<u32, NodeMemory> {
        self.machine.nodes.iter().map(|(number, node)| (*number, self.empty_node(*number, node))).collect()
    }

    fn empty_node(&self, number: u32, node: &NumaNode) -> NodeMemory {
        let reserved = |resource: &str| {
            self.reserved.get(&number).and_then(|of_node| of_node.get(resource)).copied().unwrap_or_default()
        };
        let mut huge = 0_u64;
        let mut memory_map = BTreeMap::new();
        for (size, pages) in &node.huge_pages {
            let resource = format!("{HUGE_PAGES}{}", Quantity::bytes(*size));
            let (total, reserved) = (size.saturating_mul(*pages), reserved(&resource));
            memory_map.insert(resource, MemoryTable::new(total, reserved, total.saturating_sub(reserved)));
            huge = huge.saturating_add(total);
        }
        let reserved = reserved(MEMORY);
        let allocatable = node.memory.saturating_sub(reserved).saturating_sub(huge);
        memory_map.insert(MEMORY.to_owned(), MemoryTable::new(node.memory, reserved, allocatable));
        NodeMemory { number_of_assignments: 0, memory_map, cells: vec![number] }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
