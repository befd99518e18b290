//! Machines and pods for tests.

use std::collections::BTreeMap;

use hostlet_base::testing::resource_list;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use crate::machine::{CpuPlace, CpuSet, Machine, NumaNode};

/// Mebibytes of memory that each NUMA node has.
pub(crate) const NODE_MEMORY: u64 = 1024;

/// A machine of this many NUMA nodes, so many to a socket, of so many cores with so many threads. Threads of a core are neighbors; a node
/// has one last-level cache, a gibibyte of memory, and 64 huge pages of 2 MiB.
pub(crate) fn machine(nodes: u32, per_socket: u32, cores: u32, threads: u32) -> Machine {
    let place = |cpu: u32| {
        let node = cpu / threads / cores;
        CpuPlace { node, socket: node / per_socket, core: cpu / threads * threads, cache: node }
    };
    let node = |number: u32| {
        let distances = (0..nodes).map(|to| if to == number { 10 } else { 20 }).collect();
        (
            number,
            NumaNode { memory: NODE_MEMORY << 20, huge_pages: BTreeMap::from([(2 << 20, 64)]), distances },
        )
    };
    Machine {
        cpus: (0..nodes * cores * threads).map(|cpu| (cpu, place(cpu))).collect(),
        nodes: (0..nodes).map(node).collect(),
    }
}

pub(crate) fn cpu_set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// A guaranteed pod of one container with so many CPUs and mebibytes. The name is its UID.
pub(crate) fn guaranteed(uid: &str, cpu: &str, mebibytes: u64) -> Pod {
    pod(uid, json!({"containers": [container("c", cpu, mebibytes)]}))
}

/// A container whose requests are its limits.
pub(crate) fn container(name: &str, cpu: &str, mebibytes: u64) -> Value {
    let amounts = json!({"cpu": cpu, "memory": format!("{mebibytes}Mi")});
    json!({"name": name, "resources": {"requests": amounts, "limits": amounts}})
}

pub(crate) fn pod(uid: &str, spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}, "spec": spec})).unwrap()
}

/// A container of a pod, by its position among those that are not init containers.
pub(crate) fn main(pod: &Pod, at: usize) -> &Container {
    &pod.spec.as_ref().unwrap().containers[at]
}

/// What is reserved of a node with so many mebibytes.
pub(crate) fn reserved_memory(mebibytes: u64) -> hostlet_base::ResourceList {
    resource_list([("memory", format!("{mebibytes}Mi").as_str())])
}
