//! `reservedMemory`: memory of each NUMA node that no container has for itself. In sum it is what is reserved on the node.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::resources::MEMORY;
use hostlet_base::{Quantity, ResourceList};

use crate::containers::is_memory;
use crate::machine::Machine;

/// Why the policy cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryPolicyError {
    /// A reservation is of a NUMA node that is not there.
    #[error(
        "the reserved memory configuration references a NUMA node {0} that does not exist on this machine"
    )]
    UnknownNode(u32),
    /// The sum is not what is reserved on the node.
    #[error(
        "the total amount \"{sum}\" of type \"{resource}\" is not equal to the value \"{expected}\" determined by Node Allocatable feature"
    )]
    WrongSum {
        /// The name of the resource.
        resource: String,
        /// The sum over all NUMA nodes.
        sum: Quantity,
        /// What is reserved on the node.
        expected: Quantity,
    },
    /// An amount is no whole number of bytes.
    #[error("could not covert a variable of type Quantity to int64")]
    NotBytes,
    /// No memory is reserved.
    #[error("[memorymanager] you should specify the system reserved memory")]
    NothingReserved,
    /// There are too many NUMA nodes to consider every combination.
    #[error("[memorymanager] unsupported on machines with more than {0} NUMA Nodes")]
    TooManyNodes(usize),
}

/// Memory and huge pages of a NUMA node that are reserved.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservedMemory {
    /// The node.
    pub node: u32,
    /// How much, by resource.
    pub limits: ResourceList,
}

/// Bytes that are reserved, by resource, by node.
pub(super) type Reserved = BTreeMap<u32, BTreeMap<String, u64>>;

/// Checks the reservations of a machine of whose node this much is reserved: for the kubelet, for the system, and before eviction.
pub(super) fn reserved(
    machine: &Machine,
    node: &ResourceList,
    reservations: &[ReservedMemory],
) -> Result<Reserved, MemoryPolicyError> {
    let mut sums = ResourceList::default();
    for reservation in reservations {
        if !machine.nodes.contains_key(&reservation.node) {
            return Err(MemoryPolicyError::UnknownNode(reservation.node));
        }
        sums = reservation.limits.clone().plus(sums);
    }
    let of_node = node.iter().map(|(resource, _)| resource).filter(|resource| is_memory(resource));
    let resources: BTreeSet<&str> = sums.iter().map(|(resource, _)| resource).chain(of_node).collect();
    for resource in resources {
        let amount = |list: &ResourceList| list.get(resource).unwrap_or(Quantity::count(0));
        let (sum, expected) = (amount(&sums), amount(node));
        if sum != expected {
            return Err(MemoryPolicyError::WrongSum { resource: resource.to_owned(), sum, expected });
        }
    }
    let mut reserved: Reserved = machine.nodes.keys().map(|node| (*node, BTreeMap::new())).collect();
    for ReservedMemory { node, limits } in reservations {
        for (resource, amount) in limits.iter() {
            let bytes = u64::try_from(amount.value()).ok().filter(|_| amount.is_whole());
            let bytes = bytes.ok_or(MemoryPolicyError::NotBytes)?;
            reserved.entry(*node).or_default().insert(resource.to_owned(), bytes);
        }
    }
    let memory: u64 = reserved.values().filter_map(|node| node.get(MEMORY)).sum();
    if memory == 0 { Err(MemoryPolicyError::NothingReserved) } else { Ok(reserved) }
}
