//! The state files of the managers of CPUs and memory, which a stock kubelet or a broken disk may have written.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{Quantity, ResourceList};
use hostlet_resources::{
    CpuCheckpoint, CpuOptions, CpuPlace, CpuReservation, Cpus, Machine, MemoryCheckpoint, MemoryNodes,
    NumaNode, ReservedMemory, StaticCpus, StaticMemory, TopologyPolicy,
};

/// Four CPUs and two gibibytes on two NUMA nodes.
fn machine() -> Arc<Machine> {
    let place = |cpu: u32| CpuPlace { node: cpu / 2, socket: 0, core: cpu, cache: cpu / 2 };
    let node = || NumaNode { memory: 1 << 30, huge_pages: BTreeMap::new(), distances: vec![10, 20] };
    Arc::new(Machine {
        cpus: (0..4).map(|cpu| (cpu, place(cpu))).collect(),
        nodes: (0..2).map(|number| (number, node())).collect(),
    })
}

/// The same text as the data of a file with its checksum, which a mutation would rarely hit.
fn with_checksum(data: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data).ok()?;
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let checksum = format!("(string){text}").bytes().fold(0x811c_9dc5, step);
    Some(serde_json::json!({"data": text, "dataChecksum": checksum}).to_string().into_bytes())
}

/// Whatever a file says: what is read of it is written as it was read, and no CPU is given to two or to nobody.
pub fn numa_state(data: &[u8]) {
    let inputs = [Some(data.to_vec()), with_checksum(data)];
    for input in inputs.into_iter().flatten() {
        cpus(&input);
        memory(&input);
    }
}

fn cpus(input: &[u8]) {
    let file = CpuCheckpoint::decode(input);
    if let Ok(read) = &file {
        let written = read.encode().unwrap();
        assert_eq!(CpuCheckpoint::decode(written.as_bytes()).unwrap(), *read);
    }
    let reservation = CpuReservation { milli: 1000, ..CpuReservation::default() };
    let policy =
        StaticCpus::new(machine(), CpuOptions::default(), &reservation, TopologyPolicy::None, true).unwrap();
    let (mut cpus, _) = Cpus::reconcile(Arc::new(policy), Some(file), &[]);
    let state = cpus.state().clone();
    let all = machine().cpus.keys().copied().collect();
    assert!(state.shared.is_disjoint(&state.exclusive()));
    assert_eq!(state.shared.union(&state.exclusive()), all);
    for uid in state.containers.keys().chain(state.pods.keys()) {
        cpus.release(uid);
    }
    assert_eq!(cpus.state().shared, all, "not all of it came back");
}

fn memory(input: &[u8]) {
    let file = MemoryCheckpoint::decode(input);
    if let Ok(read) = &file {
        let written = read.encode().unwrap();
        assert_eq!(MemoryCheckpoint::decode(written.as_bytes()).unwrap(), *read);
    }
    let mut reserved = ResourceList::default();
    reserved.set("memory", Quantity::bytes(64 << 20));
    let reservations = [ReservedMemory { node: 0, limits: reserved.clone() }];
    let policy = Arc::new(StaticMemory::new(machine(), &reserved, &reservations, true).unwrap());
    let empty = MemoryNodes::new(policy.clone()).state().nodes.clone();
    let (mut memory, _) = MemoryNodes::reconcile(policy, Some(file), &[]);
    let state = memory.state().clone();
    for table in state.nodes.values().flat_map(|node| node.memory_map.values()) {
        assert_eq!(table.reserved + table.free, table.allocatable);
    }
    for uid in state.containers.keys().chain(state.pods.keys()) {
        memory.release(uid);
    }
    assert_eq!(memory.state().nodes, empty, "not all of it came back");
}
