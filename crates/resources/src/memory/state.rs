//! Which memory of which NUMA nodes is whose. Names and numbers are those of the checkpoint.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::NumaMask;

/// Memory of one kind on one node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryTable {
    /// All of it.
    pub total: u64,
    /// What no container can have.
    pub system_reserved: u64,
    /// What containers can have.
    pub allocatable: u64,
    /// What containers have.
    pub reserved: u64,
    /// What containers can still have.
    pub free: u64,
}

impl MemoryTable {
    pub(super) fn new(total: u64, system_reserved: u64, allocatable: u64) -> Self {
        Self { total, system_reserved, allocatable, reserved: 0, free: allocatable }
    }
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeMemory {
    /// How many blocks use the node.
    pub number_of_assignments: i64,
    /// Memory and huge pages, by the name of the resource.
    pub memory_map: BTreeMap<String, MemoryTable>,
    /// The nodes that are used together with this one, itself included. Containers with other combinations cannot use it.
    pub cells: Vec<u32>,
}

/// Memory of one kind that a container has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The nodes that it is of.
    pub numa_affinity: Vec<u32>,
    /// The name of the resource.
    #[serde(rename = "type")]
    pub resource: String,
    /// Bytes. Less than the container has, if a later one of the pod uses the same memory.
    pub size: u64,
}

impl Block {
    pub(super) fn new(nodes: NumaMask, resource: &str, size: u64) -> Self {
        Self { numa_affinity: nodes.nodes().collect(), resource: resource.to_owned(), size }
    }

    /// The nodes.
    pub fn nodes(&self) -> NumaMask {
        NumaMask::of(self.numa_affinity.iter().copied())
    }
}

/// Which memory is whose: what a restart must not lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The nodes, by number.
    pub nodes: BTreeMap<u32, NodeMemory>,
    /// The memory of containers, by the UID of the pod.
    pub containers: BTreeMap<String, BTreeMap<String, Vec<Block>>>,
    /// The memory of pods with resources of their own.
    pub pods: BTreeMap<String, Vec<Block>>,
}

impl MemoryState {
    /// The memory of a container, if it has some for itself.
    pub fn container(&self, uid: &str, container: &str) -> Option<&[Block]> {
        self.containers.get(uid)?.get(container).map(Vec::as_slice)
    }

    pub(super) fn set(&mut self, uid: &str, container: &str, blocks: Vec<Block>) {
        self.containers.entry(uid.to_owned()).or_default().insert(container.to_owned(), blocks);
    }

    /// Counts a block that uses these nodes, and takes this much from them: from each as much as it has.
    pub(super) fn take(&mut self, nodes: NumaMask, resource: &str, mut size: u64) {
        for node in nodes.nodes() {
            let Some(node) = self.nodes.get_mut(&node) else { continue };
            node.number_of_assignments += 1;
            node.cells = nodes.nodes().collect();
            if let Some(table) = node.memory_map.get_mut(resource) {
                let taken = size.min(table.free);
                table.free -= taken;
                table.reserved += taken;
                size -= taken;
            }
        }
    }

    /// The reverse: from each node as much as is taken of it.
    pub(super) fn give_back(&mut self, block: &Block) {
        let mut size = block.size;
        for number in &block.numa_affinity {
            let Some(node) = self.nodes.get_mut(number) else { continue };
            node.number_of_assignments -= 1;
            if node.number_of_assignments == 0 {
                node.cells = vec![*number];
            }
            if let Some(table) = node.memory_map.get_mut(&block.resource) {
                let released = size.min(table.reserved);
                table.reserved -= released;
                table.free += released;
                size -= released;
            }
        }
    }
}
