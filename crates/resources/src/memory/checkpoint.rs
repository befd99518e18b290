//! The file `memory_manager_state` in the formats of stock kubelets: written as version 3, which older ones read as version 1 as well; read
//! in versions 1 (until 1.35), 2 and 3.

use std::collections::BTreeMap;

use hostlet_base::{go_json, null_as_default};
use serde::{Deserialize, Serialize};

use super::state::{Block, MemoryState, MemoryTable, NodeMemory};
use crate::checksum::{checksum, dump_map, text_checksum};

/// Why a file is not a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum MemoryCheckpointError {
    /// It is no JSON of this form.
    #[error("cannot be read")]
    Json(#[from] serde_json::Error),
    /// The content is not what was written.
    #[error("has the checksum {found} instead of {expected}")]
    Checksum {
        /// The checksum of the content.
        found: u64,
        /// The checksum in the file.
        expected: u64,
    },
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCheckpoint {
    /// `Static` or `None`.
    pub policy: String,
    /// The memory by owner.
    pub state: MemoryState,
}

type Entries = BTreeMap<String, BTreeMap<String, Vec<Block>>>;

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    policy_name: String,
    #[serde(deserialize_with = "null_as_default")]
    machine_state: BTreeMap<NodeNumber, NodeMemory>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    entries: Entries,
    /// Only in version 2.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pod_entries: BTreeMap<String, PodEntry>,
    checksum: u64,
    data: String,
    data_checksum: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Data {
    policy_name: String,
    #[serde(deserialize_with = "null_as_default")]
    machine_state: BTreeMap<NodeNumber, NodeMemory>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    entries: Entries,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pod_entries: BTreeMap<String, PodEntry>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodEntry {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    memory_blocks: Vec<Block>,
}

/// The number of a node, in Go's order of the keys of a JSON object: that of texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
struct NodeNumber(String);

impl MemoryCheckpoint {
    /// The bytes of the file.
    pub fn encode(&self) -> Result<String, MemoryCheckpointError> {
        let state = &self.state;
        let nodes = || {
            state.nodes.iter().map(|(number, node)| (NodeNumber(number.to_string()), node.clone())).collect()
        };
        let pod_entry =
            |(uid, blocks): (&String, &Vec<Block>)| (uid.clone(), PodEntry { memory_blocks: blocks.clone() });
        let data = go_json(&Data {
            policy_name: self.policy.clone(),
            machine_state: nodes(),
            entries: state.containers.clone(),
            pod_entries: state.pods.iter().map(pod_entry).collect(),
        })?;
        let mut file = File {
            policy_name: self.policy.clone(),
            machine_state: nodes(),
            entries: state.containers.clone(),
            data_checksum: text_checksum(&data),
            data,
            ..File::default()
        };
        file.checksum = file.checksum_as("MemoryManagerCheckpoint", false);
        Ok(go_json(&file)?)
    }

    /// Reads the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, MemoryCheckpointError> {
        let file: File = serde_json::from_slice(bytes)?;
        let data = if file.data.is_empty() && file.data_checksum == 0 {
            file.checked_as_before()?
        } else {
            let found = text_checksum(&file.data);
            if found != file.data_checksum {
                return Err(MemoryCheckpointError::Checksum { found, expected: file.data_checksum });
            }
            serde_json::from_str(&file.data)?
        };
        // What is no number is no node that there is.
        let node = |(number, node): (NodeNumber, _)| Some((number.0.parse().ok()?, node));
        let state = MemoryState {
            nodes: data.machine_state.into_iter().filter_map(node).collect(),
            containers: data.entries,
            pods: data.pod_entries.into_iter().map(|(uid, entry)| (uid, entry.memory_blocks)).collect(),
        };
        Ok(Self { policy: data.policy_name, state })
    }
}

impl File {
    /// The content of version 2, or of version 1 before it, which has no pods and may have no checksum.
    fn checked_as_before(self) -> Result<Data, MemoryCheckpointError> {
        let is_second = self.checksum_as("MemoryManagerCheckpoint", true) == self.checksum;
        let found = self.checksum_as("MemoryManagerCheckpoint", false);
        if !is_second && self.checksum != 0 && self.checksum != found {
            return Err(MemoryCheckpointError::Checksum { found, expected: self.checksum });
        }
        let pod_entries = if is_second { self.pod_entries } else { BTreeMap::new() };
        let Self { policy_name, machine_state, entries, .. } = self;
        Ok(Data { policy_name, machine_state, entries, pod_entries })
    }

    /// The checksum of the fields of this Go type.
    fn checksum_as(&self, name: &str, with_pods: bool) -> u64 {
        let mut nodes: Vec<_> = self.machine_state.iter().collect();
        nodes.sort_by_key(|(number, _)| number.0.parse::<i64>().unwrap_or(i64::MAX));
        let nodes = dump_map(nodes.into_iter().map(|(number, node)| (number.0.clone(), dump_node(node))));
        let containers = |own: &BTreeMap<String, Vec<Block>>| {
            dump_map(own.iter().map(|(name, blocks)| (name.clone(), dump_blocks(blocks))))
        };
        let entries = dump_map(self.entries.iter().map(|(uid, own)| (uid.clone(), containers(own))));
        let pod = |(uid, own): (&String, &PodEntry)| {
            let blocks = &own.memory_blocks;
            let blocks = if blocks.is_empty() { "<nil>".to_owned() } else { dump_blocks(blocks) };
            (uid.clone(), format!("{{MemoryBlocks:([]state.Block){blocks}}}"))
        };
        let pods = dump_map(self.pod_entries.iter().map(pod));
        let pods =
            if with_pods { format!(" PodEntries:(state.PodMemoryAssignments){pods}") } else { String::new() };
        checksum(&format!(
            "(*state.{name}){{PolicyName:(string){} MachineState:(state.NUMANodeMap){nodes} \
             Entries:(state.ContainerMemoryAssignments){entries}{pods} Checksum:(checksum.Checksum)0}}",
            self.policy_name
        ))
    }
}

fn dump_node(node: &NodeMemory) -> String {
    let tables =
        dump_map(node.memory_map.iter().map(|(resource, table)| (resource.clone(), dump_table(table))));
    let (assignments, cells) = (node.number_of_assignments, dump_numbers(&node.cells));
    format!(
        "<*>{{NumberOfAssignments:(int){assignments} MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables} \
         Cells:([]int){cells}}}"
    )
}

fn dump_table(table: &MemoryTable) -> String {
    let MemoryTable { total, system_reserved, allocatable, reserved, free } = table;
    format!(
        "<*>{{TotalMemSize:(uint64){total} SystemReserved:(uint64){system_reserved} Allocatable:(uint64){allocatable} \
         Reserved:(uint64){reserved} Free:(uint64){free}}}"
    )
}

fn dump_blocks(blocks: &[Block]) -> String {
    let block = |block: &Block| {
        let nodes = dump_numbers(&block.numa_affinity);
        let Block { resource, size, .. } = block;
        format!("{{NUMAAffinity:([]int){nodes} Type:(v1.ResourceName){resource} Size:(uint64){size}}}")
    };
    let blocks: Vec<String> = blocks.iter().map(block).collect();
    format!("[{}]", blocks.join(" "))
}

fn dump_numbers(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("[{}]", numbers.join(" "))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
