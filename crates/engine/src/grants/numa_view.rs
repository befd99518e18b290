//! Who has which CPUs and which memory of which NUMA nodes, as people see it. Written by the daemon, read by the command line.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_resources::{Block, CpuSet, CpuState, Managers, MemoryState};
use serde::{Deserialize, Serialize};

/// The CPUs and the memory that containers have for themselves, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NumaView {
    /// The CPUs of all containers that have none for themselves, in the kernel's list format; `None` with the CPU manager's policy `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cpus: Option<String>,
    /// The memory that containers can have for themselves; empty with the memory manager's policy `None`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<NodeMemoryView>,
    /// Who has some, by pod and container.
    pub holders: Vec<NumaHolder>,
}

/// Memory of one kind on one NUMA node, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMemoryView {
    /// The NUMA node.
    pub numa_node: u32,
    /// `memory`, or such as `hugepages-2Mi`.
    pub resource: String,
    /// What containers can have for themselves.
    pub allocatable: u64,
    /// What of it no container has.
    pub free: u64,
}

/// A container, or a pod with resources of its own, that has CPUs or memory for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NumaHolder {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `<namespace>/<name>`, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The container; `None` for what all containers of the pod have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its CPUs in the kernel's list format; `None` if it has none for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Its memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Block>,
}

impl NumaView {
    /// What containers have; `None` if neither CPUs nor memory are granted on this node.
    pub(super) fn of(managers: &Managers) -> Option<Self> {
        if managers.cpus.is_none() && managers.memory.is_none() {
            return None;
        }
        let (no_cpus, no_memory) = (CpuState::default(), MemoryState::default());
        let cpus = managers.cpus.as_ref().map_or(&no_cpus, |cpus| cpus.state());
        let memory = managers.memory.as_ref().map_or(&no_memory, |memory| memory.state());
        let tables = memory.nodes.iter().flat_map(|(node, of_node)| {
            of_node.memory_map.iter().map(|(resource, table)| NodeMemoryView {
                numa_node: *node,
                resource: resource.clone(),
                allocatable: table.allocatable,
                free: table.free,
            })
        });
        Some(Self {
            shared_cpus: managers.cpus.as_ref().map(|cpus| cpus.shared().to_string()),
            memory: tables.collect(),
            holders: holders(cpus, memory),
        })
    }
}

fn holders(cpus: &CpuState, memory: &MemoryState) -> Vec<NumaHolder> {
    let with_cpus = cpus.pods.keys().chain(cpus.containers.keys());
    let uids: BTreeSet<&String> =
        with_cpus.chain(memory.pods.keys()).chain(memory.containers.keys()).collect();
    let mut holders = Vec::new();
    for uid in uids {
        let holder =
            |container: Option<&String>, cpus: Option<&CpuSet>, memory: Option<&Vec<Block>>| NumaHolder {
                uid: uid.clone(),
                pod: None,
                container: container.cloned(),
                cpus: cpus.map(ToString::to_string),
                memory: memory.cloned().unwrap_or_default(),
            };
        let (of_pod, memory_of_pod) = (cpus.pods.get(uid), memory.pods.get(uid));
        if of_pod.is_some() || memory_of_pod.is_some() {
            holders.push(holder(None, of_pod, memory_of_pod));
        }
        let (no_cpus, no_memory) = (BTreeMap::new(), BTreeMap::new());
        let cpus = cpus.containers.get(uid).unwrap_or(&no_cpus);
        let memory = memory.containers.get(uid).unwrap_or(&no_memory);
        let containers: BTreeSet<&String> = cpus.keys().chain(memory.keys()).collect();
        holders
            .extend(containers.into_iter().map(|name| holder(Some(name), cpus.get(name), memory.get(name))));
    }
    holders
}

#[cfg(test)]
mod tests {
    use hostlet_resources::{NumaMask, StaticManagers, Topology};

    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn nothing_is_shown_where_nothing_is_granted() {
        let policy = StaticManagers { topology: Topology::none(), pod_level: false };
        assert_eq!(NumaView::of(&Managers::new(policy.into(), None, None)), None);
    }

    #[test]
    fn each_holder_has_its_cpus_and_its_memory() {
        let block = |node: u32, size: u64| Block {
            numa_affinity: NumaMask::of([node]).nodes().collect(),
            resource: "memory".to_owned(),
            size,
        };
        let cpus = CpuState {
            shared: set("0-1"),
            containers: [
                ("u1".to_owned(), [("a".to_owned(), set("2-3"))].into()),
                ("u2".to_owned(), [("c".to_owned(), set("5"))].into()),
            ]
            .into(),
            pods: [("u2".to_owned(), set("4-5"))].into(),
        };
        let memory = MemoryState {
            containers: [("u1".to_owned(), [("b".to_owned(), vec![block(1, 7)])].into())].into(),
            pods: [("u2".to_owned(), vec![block(0, 9)])].into(),
            ..MemoryState::default()
        };
        let shown: Vec<_> = holders(&cpus, &memory)
            .into_iter()
            .map(|it| (it.uid, it.container, it.cpus, it.memory.iter().map(|block| block.size).sum::<u64>()))
            .collect();
        let line = |uid: &str, container: Option<&str>, cpus: Option<&str>, size: u64| {
            (uid.to_owned(), container.map(str::to_owned), cpus.map(str::to_owned), size)
        };
        assert_eq!(
            shown,
            [
                line("u1", Some("a"), Some("2-3"), 0),
                line("u1", Some("b"), None, 7),
                line("u2", None, Some("4-5"), 9),
                line("u2", Some("c"), Some("5"), 0),
            ]
        );
    }
}
