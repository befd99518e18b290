//! What a start finds: the file of the run before, which may be of another policy, another machine, or broken, and what runs. What runs
//! keeps its memory, and nothing that was found is a reason not to start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::checkpoint::{MemoryCheckpoint, MemoryCheckpointError};
use super::demand::container_memory;
use super::grants::MemoryNodes;
use super::policy::StaticMemory;
use super::state::{Block, MemoryState, NodeMemory};
use crate::containers::{containers, is_guaranteed};
use crate::machine::NumaMask;

/// Name of the static policy, in the file.
pub(super) const STATIC: &str = "Static";

/// An admitted pod that has not terminated, and the nodes of whose memory its running containers may use according to the kernel.
#[derive(Clone, Debug)]
pub struct RunningMemory<'a> {
    /// The pod with the resources that it was granted.
    pub pod: &'a Pod,
    /// The nodes by container, as far as they are known.
    pub nodes: BTreeMap<String, NumaMask>,
}

/// Something of the file that no longer holds.
#[derive(Debug)]
pub enum MemoryFinding {
    /// The file is not used.
    Unreadable(MemoryCheckpointError),
    /// The file is of another policy.
    OtherPolicy(String),
    /// The machine has other memory, or reserves more or less of it.
    Machine,
    /// A container has memory of nodes, or huge pages of a size, that the machine no longer has.
    Lost {
        /// UID of the pod.
        uid: String,
        /// The container.
        container: String,
    },
    /// The file does not have the memory that a container uses.
    Adopted {
        /// UID of the pod.
        uid: String,
        /// The container.
        container: String,
    },
    /// Containers have more memory of a node than there is.
    Exceeded(u32),
}

impl fmt::Display for MemoryFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the file {error}"),
            Self::OtherPolicy(policy) => write!(f, "the file is of policy \"{policy}\""),
            Self::Machine => f.write_str("the machine's memory, or what is reserved of it, changed"),
            Self::Lost { uid, container } => {
                write!(f, "container {container} of pod {uid} has memory that the machine no longer has")
            }
            Self::Adopted { uid, container } => {
                write!(f, "container {container} of pod {uid} keeps the memory nodes that it uses")
            }
            Self::Exceeded(node) => {
                write!(f, "containers have more memory of NUMA node {node} than there is")
            }
        }
    }
}

impl MemoryNodes {
    /// The memory of what runs. `file` is what the run before left, if anything.
    pub fn reconcile(
        policy: Arc<StaticMemory>,
        file: Option<Result<MemoryCheckpoint, MemoryCheckpointError>>,
        running: &[RunningMemory<'_>],
    ) -> (Self, Vec<MemoryFinding>) {
        let mut findings = Vec::new();
        let file = match file {
            None => None,
            Some(Err(error)) => {
                findings.push(MemoryFinding::Unreadable(error));
                None
            }
            Some(Ok(file)) if file.policy != STATIC => {
                findings.push(MemoryFinding::OtherPolicy(file.policy));
                None
            }
            Some(Ok(file)) => Some(file.state),
        };
        let mut memory = Self::new(policy);
        if file
            .as_ref()
            .is_some_and(|file| !file.nodes.is_empty() && changed(&file.nodes, &memory.state.nodes))
        {
            findings.push(MemoryFinding::Machine);
        }
        for running in running {
            memory.adopt(file.as_ref(), running, &mut findings);
        }
        (memory, findings)
    }

    fn adopt(
        &mut self,
        file: Option<&MemoryState>,
        running: &RunningMemory<'_>,
        findings: &mut Vec<MemoryFinding>,
    ) {
        let uid = PodView::from(running.pod).uid;
        let pod = file.and_then(|file| file.pods.get(uid)).filter(|_| self.policy.pod_level);
        if let Some(pod) = pod {
            let pod: Vec<Block> = pod.iter().filter_map(|block| self.kept(block)).collect();
            self.take_all(&pod, findings);
            self.state.pods.insert(uid.to_owned(), pod);
        }
        for container in containers(running.pod) {
            let name = &container.name;
            let own = match file.and_then(|file| file.container(uid, name)) {
                Some(own) => own.to_vec(),
                None => {
                    let Some(actual) = self.actual(running, container) else { continue };
                    findings.push(MemoryFinding::Adopted { uid: uid.to_owned(), container: name.clone() });
                    actual
                }
            };
            let kept: Vec<Block> = own.iter().filter_map(|block| self.kept(block)).collect();
            if kept != own {
                findings.push(MemoryFinding::Lost { uid: uid.to_owned(), container: name.clone() });
            }
            if pod.is_none() {
                self.take_all(&kept, findings);
            }
            if !kept.is_empty() {
                self.state.set(uid, name, kept);
            }
        }
    }

    /// What a container without memory in the file uses, if it is bound to some nodes.
    fn actual(&self, running: &RunningMemory<'_>, container: &Container) -> Option<Vec<Block>> {
        let nodes = *running.nodes.get(&container.name)?;
        let all = NumaMask::of(self.state.nodes.keys().copied());
        let is_bound = !nodes.is_empty() && (nodes != all || all.count() == 1);
        if !is_bound || !is_guaranteed(running.pod) || self.ignores(running.pod) {
            return None;
        }
        let demand = container_memory(running.pod, container, self.policy.pod_level).ok()?;
        let blocks: Vec<Block> =
            demand.iter().map(|(resource, bytes)| Block::new(nodes, resource, *bytes)).collect();
        (!blocks.is_empty()).then_some(blocks)
    }

    /// A block on the nodes that are still there and have its resource.
    fn kept(&self, block: &Block) -> Option<Block> {
        let has = |node: &u32| {
            self.state.nodes.get(node).is_some_and(|node| node.memory_map.contains_key(&block.resource))
        };
        let nodes = NumaMask::of(block.numa_affinity.iter().copied().filter(has));
        (!nodes.is_empty()).then(|| Block::new(nodes, &block.resource, block.size))
    }

    fn take_all(&mut self, blocks: &[Block], findings: &mut Vec<MemoryFinding>) {
        for block in blocks {
            let nodes = block.nodes();
            let demand = BTreeMap::from([(block.resource.clone(), block.size)]);
            if !self.has_free(nodes, &demand, None) {
                findings.extend(block.numa_affinity.first().copied().map(MemoryFinding::Exceeded));
            }
            self.state.take(nodes, &block.resource, block.size);
        }
    }
}

/// Whether what containers can have differs.
fn changed(file: &BTreeMap<u32, NodeMemory>, now: &BTreeMap<u32, NodeMemory>) -> bool {
    let sizes = |nodes: &BTreeMap<u32, NodeMemory>| -> Vec<(u32, String, [u64; 3])> {
        let tables = nodes.iter().flat_map(|(number, node)| {
            node.memory_map.iter().map(|(resource, table)| (*number, resource.clone(), *table))
        });
        let sizes = tables.map(|(number, resource, table)| {
            (number, resource, [table.total, table.system_reserved, table.allocatable])
        });
        sizes.collect()
    };
    sizes(file) != sizes(now)
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
