//! Memory of containers: of which nodes it is, and that it comes back.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::error::GrantError;
use crate::memory::{MemoryCheckpoint, ReservedMemory, RunningMemory};
use crate::testing::{container, guaranteed, machine, main, pod, reserved_memory};
use crate::topology::Hint;

/// Each node has a gibibyte, of which 128 MiB are huge pages; of the first node's, 96 MiB are reserved.
fn memory(nodes: u32) -> MemoryNodes {
    let reserved = ReservedMemory { node: 0, limits: reserved_memory(96) };
    let policy =
        StaticMemory::new(Arc::new(machine(nodes, 1, 2, 1)), &reserved_memory(96), &[reserved], true);
    MemoryNodes::new(Arc::new(policy.unwrap()))
}

fn allocate(memory: &mut MemoryNodes, pod: &Pod, nodes: &[u32]) -> Result<(), GrantError> {
    let nodes = (!nodes.is_empty()).then(|| NumaMask::of(nodes.iter().copied()));
    let hint = Hint { nodes, preferred: false };
    crate::containers::containers(pod).try_for_each(|container| memory.allocate(pod, container, hint))
}

fn free(memory: &MemoryNodes, node: u32) -> u64 {
    memory.state.nodes[&node].memory_map["memory"].free >> 20
}

#[test]
fn memory_is_of_the_hinted_nodes_and_of_the_best_ones_without_a_hint() {
    let mut memory = memory(2);
    allocate(&mut memory, &guaranteed("hinted", "1", 500), &[1]).unwrap();
    assert_eq!(memory.nodes("hinted", "c"), Some(NumaMask::of([1])));
    assert_eq!((free(&memory, 0), free(&memory, 1)), (800, 396));
    allocate(&mut memory, &guaranteed("any", "1", 600), &[]).unwrap();
    assert_eq!(memory.nodes("any", "c"), Some(NumaMask::of([0])));
    let burstable =
        pod("b", json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]}));
    allocate(&mut memory, &burstable, &[0]).unwrap();
    assert_eq!(memory.nodes("b", "c"), None);
    let error = allocate(&mut memory.clone(), &guaranteed("large", "1", 500), &[]).unwrap_err();
    assert_eq!(error, GrantError::NoMemory);
    let error = allocate(&mut memory.clone(), &guaranteed("large", "1", 500), &[1]).unwrap_err();
    assert_eq!(
        error.rejection().message,
        "Allocate failed due to [memorymanager] failed to find NUMA nodes to extend the current topology hint, which is unexpected"
    );
    memory.release("hinted");
    memory.release("any");
    assert_eq!(memory.state, super::MemoryNodes::new(Arc::clone(&memory.policy)).state);
}

#[test]
fn nodes_that_are_used_alone_are_not_combined_and_combinations_not_divided() {
    let mut alone = memory(3);
    allocate(&mut alone, &guaranteed("alone", "1", 10), &[0]).unwrap();
    allocate(&mut alone, &guaranteed("two", "1", 1500), &[]).unwrap();
    assert_eq!(alone.nodes("two", "c"), Some(NumaMask::of([1, 2])));
    // Nodes 1 and 2 have 292 MiB, but node 0 has enough.
    let small = guaranteed("small", "1", 100);
    let hints: Vec<_> =
        alone.hints(&small, main(&small, 0))["memory"].iter().map(|hint| hint.nodes.unwrap()).collect();
    assert_eq!(hints, [NumaMask::of([0]), NumaMask::of([1, 2])]);
    let error = allocate(&mut alone, &guaranteed("divides", "1", 10), &[0, 1]).unwrap_err();
    assert_eq!(error, GrantError::NodeInOtherGroup);
}

#[test]
fn later_containers_use_the_memory_of_init_containers() {
    let mut memory = memory(1);
    let pod = pod(
        "p",
        json!({"initContainers": [container("init", "1", 300)], "containers": [container("a", "1", 200), container("b", "1", 200)]}),
    );
    allocate(&mut memory, &pod, &[0]).unwrap();
    assert_eq!(free(&memory, 0), 400);
    let size = |memory: &MemoryNodes, name: &str| {
        memory.state.container("p", name).map(|blocks| blocks[0].size >> 20)
    };
    assert_eq!(
        (size(&memory, "init"), size(&memory, "a"), size(&memory, "b")),
        (Some(0), Some(200), Some(200))
    );
    memory.release_before(&pod, "init");
    assert_eq!(size(&memory, "init"), Some(0));
    memory.release_before(&pod, "a");
    assert_eq!((size(&memory, "init"), free(&memory, 0)), (None, 400));
    memory.release_container("p", "a");
    assert_eq!(free(&memory, 0), 600);
    memory.release("p");
    assert_eq!(free(&memory, 0), 800);
}

#[test]
fn a_pod_with_memory_of_its_own_has_it_once_and_on_the_same_nodes() {
    let own = json!({"cpu": "1", "memory": "900Mi"});
    let spec = json!({"resources": {"requests": own, "limits": own}, "containers": [container("a", "1", 100), {"name": "shares"}]});
    let (mut memory, pod) = (memory(2), pod("p", spec));
    memory.allocate_pod(&pod, Hint::default()).unwrap();
    let before = memory.state.clone();
    assert_eq!(memory.nodes("p", "a"), memory.nodes("p", "shares"));
    assert_eq!(before.container("p", "shares").unwrap()[0].size >> 20, 800);
    memory.allocate_pod(&pod, Hint::default()).unwrap();
    assert_eq!(memory.state, before);
    memory.release_container("p", "a");
    assert_eq!(memory.state.nodes, before.nodes);
    memory.release_container("p", "shares");
    assert_eq!((free(&memory, 0), free(&memory, 1)), (800, 896));
}

proptest! {
    /// Containers never have more than there is, and all comes back, restarts included.
    #[test]
    fn memory_is_never_exceeded_and_always_comes_back(
        nodes in 1_u32..5,
        steps in proptest::collection::vec((0_u8..6, 0_u8..4, 0_u64..4, proptest::collection::vec(1_u64..900, 1..3)), 1..24),
    ) {
        let mut memory = memory(nodes);
        let empty = memory.state.clone();
        let mut pods = BTreeMap::new();
        for (uid, kind, huge, sizes) in steps {
            let name = uid.to_string();
            match kind {
                0 => {
                    memory.release(&name);
                    pods.remove(&uid);
                }
                1 => {
                    let file = MemoryCheckpoint { policy: "Static".to_owned(), state: memory.state.clone() };
                    let file = MemoryCheckpoint::decode(file.encode().unwrap().as_bytes());
                    let running: Vec<_> = pods.values().map(|pod| RunningMemory { pod, nodes: BTreeMap::new() }).collect();
                    let (next, findings) = MemoryNodes::reconcile(Arc::clone(&memory.policy), Some(file), &running);
                    prop_assert!(findings.is_empty(), "{:?}", findings);
                    prop_assert_eq!(&next.state.containers, &memory.state.containers);
                    memory = next;
                }
                _ => {
                    let mut containers: Vec<_> = sizes.iter().enumerate().map(|(at, size)| container(&at.to_string(), "1", *size)).collect();
                    for list in ["requests", "limits"] {
                        containers[0]["resources"][list]["hugepages-2Mi"] = json!(format!("{}Mi", huge * 32));
                    }
                    let pod = pod(&name, json!({"initContainers": [container("init", "1", sizes[0])], "containers": containers}));
                    let mut next = memory.clone();
                    if !pods.contains_key(&uid) && allocate(&mut next, &pod, &[]).is_ok() {
                        memory = next;
                        pods.insert(uid, pod);
                    }
                }
            }
            for node in memory.state.nodes.values() {
                for table in node.memory_map.values() {
                    prop_assert_eq!(table.free + table.reserved, table.allocatable);
                }
            }
        }
        for uid in pods.keys() {
            memory.release(&uid.to_string());
        }
        prop_assert_eq!(&memory.state, &empty);
    }
}
