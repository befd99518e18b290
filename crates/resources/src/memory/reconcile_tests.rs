//! Starts with files that do not fit.

use super::*;
use crate::memory::ReservedMemory;
use crate::testing::{guaranteed, machine, reserved_memory};

fn policy(nodes: u32, reserved: u64) -> Arc<StaticMemory> {
    let own = ReservedMemory { node: 0, limits: reserved_memory(reserved) };
    let machine = Arc::new(machine(nodes, 1, 1, 1));
    Arc::new(StaticMemory::new(machine, &reserved_memory(reserved), &[own], true).unwrap())
}

fn block(nodes: &[u32], mebibytes: u64) -> Block {
    Block::new(NumaMask::of(nodes.iter().copied()), "memory", mebibytes << 20)
}

fn file(policy: Arc<StaticMemory>, own: &[(&Pod, Block)]) -> MemoryCheckpoint {
    let mut memory = MemoryNodes::new(policy);
    for (pod, block) in own {
        memory.state.take(block.nodes(), "memory", block.size);
        memory.state.set(PodView::from(*pod).uid, "c", vec![block.clone()]);
    }
    MemoryCheckpoint { policy: STATIC.to_owned(), state: memory.state }
}

fn reconciled(
    policy: Arc<StaticMemory>,
    file: Option<Result<MemoryCheckpoint, MemoryCheckpointError>>,
    running: &[(&Pod, &[u32])],
) -> (MemoryNodes, Vec<String>) {
    let running = running.iter().map(|(pod, nodes)| RunningMemory {
        pod,
        nodes: BTreeMap::from([("c".to_owned(), NumaMask::of(nodes.iter().copied()))]),
    });
    let (memory, findings) = MemoryNodes::reconcile(policy, file, &running.collect::<Vec<_>>());
    (memory, findings.iter().map(ToString::to_string).collect())
}

/// kubernetes/kubernetes#123971.
#[test]
fn after_a_restart_the_state_is_as_before_without_pods_that_ended() {
    let (runs, ended) = (guaranteed("runs", "1", 100), guaranteed("ended", "1", 200));
    let before = file(policy(2, 96), &[(&runs, block(&[0], 100)), (&ended, block(&[1], 200))]);
    let (memory, findings) = reconciled(policy(2, 96), Some(Ok(before)), &[(&runs, &[0])]);
    assert_eq!(findings, [""; 0]);
    assert_eq!(memory.state, file(policy(2, 96), &[(&runs, block(&[0], 100))]).state);
}

#[test]
fn other_reservations_and_policies_are_no_reason_not_to_start() {
    let runs = guaranteed("runs", "1", 700);
    let before = file(policy(1, 96), &[(&runs, block(&[0], 700))]);
    let (memory, findings) = reconciled(policy(1, 400), Some(Ok(before.clone())), &[(&runs, &[])]);
    assert_eq!(memory.nodes("runs", "c"), Some(NumaMask::of([0])));
    assert_eq!(
        findings,
        [
            "the machine's memory, or what is reserved of it, changed",
            "containers have more memory of NUMA node 0 than there is",
        ]
    );
    let none = MemoryCheckpoint { policy: "None".to_owned(), ..before };
    let (memory, findings) = reconciled(policy(1, 96), Some(Ok(none)), &[(&runs, &[])]);
    assert_eq!(
        (memory.nodes("runs", "c"), findings),
        (None, vec!["the file is of policy \"None\"".to_owned()])
    );
}

#[test]
fn a_broken_file_is_replaced_by_what_runs() {
    let (bound, free) = (guaranteed("bound", "1", 100), guaranteed("free", "1", 100));
    let broken = || Some(MemoryCheckpoint::decode(b"{"));
    let running: [(&Pod, &[u32]); 2] = [(&bound, &[1]), (&free, &[0, 1])];
    let (memory, findings) = reconciled(policy(2, 96), broken(), &running);
    assert_eq!((memory.nodes("bound", "c"), memory.nodes("free", "c")), (Some(NumaMask::of([1])), None));
    assert_eq!(
        findings,
        ["the file cannot be read", "container c of pod bound keeps the memory nodes that it uses"]
    );
}

#[test]
fn memory_of_a_node_that_went_is_lost() {
    let (lost, half) = (guaranteed("lost", "1", 100), guaranteed("half", "1", 1000));
    let before = file(policy(3, 96), &[(&lost, block(&[2], 100)), (&half, block(&[1, 2], 1000))]);
    let (mut memory, findings) = reconciled(policy(2, 96), Some(Ok(before)), &[(&lost, &[]), (&half, &[])]);
    assert_eq!((memory.nodes("lost", "c"), memory.nodes("half", "c")), (None, Some(NumaMask::of([1]))));
    assert!(
        findings.contains(&"container c of pod lost has memory that the machine no longer has".to_owned())
    );
    memory.release("half");
    assert_eq!(memory.state, MemoryNodes::new(policy(2, 96)).state);
}
