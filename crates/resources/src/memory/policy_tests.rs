//! What the static policy needs of a configuration.

use super::*;
use crate::testing::{machine, reserved_memory};
use hostlet_base::testing::resource_list;

fn policy(node: &ResourceList, reservations: &[(u32, &[(&str, &str)])]) -> Result<StaticMemory, String> {
    let limits = |amounts: &[(&str, &str)]| {
        amounts.iter().map(|(name, amount)| (*name, Quantity::parse(amount).unwrap())).collect()
    };
    let reservations: Vec<ReservedMemory> = reservations
        .iter()
        .map(|(node, amounts)| ReservedMemory { node: *node, limits: limits(amounts) })
        .collect();
    StaticMemory::new(Arc::new(machine(2, 1, 1, 1)), node, &reservations, false)
        .map_err(|error| error.to_string())
}

#[test]
fn reservations_add_up_to_what_is_reserved_on_the_node() {
    let node = resource_list([("memory", "300Mi"), ("hugepages-2Mi", "4Mi"), ("cpu", "1")]);
    let nodes =
        policy(&node, &[(0, &[("memory", "100Mi"), ("hugepages-2Mi", "4Mi")]), (1, &[("memory", "200Mi")])]);
    let nodes = nodes.unwrap().empty_nodes();
    let table = |node: u32, resource: &str| nodes[&node].memory_map[resource];
    assert_eq!(table(0, "hugepages-2Mi"), MemoryTable::new(128 << 20, 4 << 20, 124 << 20));
    // Huge pages are no other memory.
    assert_eq!(table(0, "memory"), MemoryTable::new(1024 << 20, 100 << 20, (1024 - 100 - 128) << 20));
    assert_eq!(table(1, "memory").allocatable, (1024 - 200 - 128) << 20);
    assert_eq!(nodes[&1].cells, [1]);
}

#[test]
fn what_does_not_add_up_is_an_error_in_upstreams_words() {
    let huge = resource_list([("memory", "1Gi"), ("hugepages-2Mi", "4Mi")]);
    for (node, reservations, error) in [
        (
            reserved_memory(100),
            &[(2_u32, &[("memory", "100Mi")][..])][..],
            "the reserved memory configuration references a NUMA node 2 that does not exist on this machine",
        ),
        (
            reserved_memory(100),
            &[(0, &[("memory", "100Mi")]), (1, &[("memory", "1Gi")])],
            "the total amount \"1124Mi\" of type \"memory\" is not equal to the value \"100Mi\" determined by Node Allocatable feature",
        ),
        (
            huge,
            &[(0, &[("memory", "1Gi")])],
            "the total amount \"0\" of type \"hugepages-2Mi\" is not equal to the value \"4Mi\" determined by Node Allocatable feature",
        ),
        (reserved_memory(0), &[], "[memorymanager] you should specify the system reserved memory"),
    ] {
        assert_eq!(policy(&node, reservations).map(|_| ()), Err(error.to_owned()));
    }
    let many = StaticMemory::new(Arc::new(machine(17, 1, 1, 1)), &ResourceList::default(), &[], false);
    assert_eq!(many.map(|_| ()), Err(MemoryPolicyError::TooManyNodes(16)));
}

#[test]
fn a_node_with_more_reserved_than_there_is_has_nothing_to_allocate() {
    let nodes = policy(&reserved_memory(4096), &[(0, &[("memory", "4Gi")])]).unwrap().empty_nodes();
    assert_eq!(nodes[&0].memory_map["memory"].allocatable, 0);
}
