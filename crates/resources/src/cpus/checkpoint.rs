//! The file `cpu_manager_state` in the formats of stock kubelets: written as version 4, which older ones read as version 2 as well; read in
//! versions 2 (until 1.35), 3 and 4.

use std::collections::BTreeMap;

use hostlet_base::{CpuListError, go_json, null_as_default};
use serde::{Deserialize, Serialize};

use super::state::{Assignments, CpuState};
use crate::checksum::{checksum, dump_map, text_checksum};
use crate::machine::CpuSet;

/// Why a file is not a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CpuCheckpointError {
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
    /// A text is not a list of CPUs.
    #[error("has a list of CPUs that is none")]
    CpuList(#[from] CpuListError),
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCheckpoint {
    /// `static` or `none`.
    pub policy: String,
    /// The CPUs by owner.
    pub state: CpuState,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    policy_name: String,
    default_cpu_set: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    entries: Assignments<String>,
    /// Only in version 3.
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
    default_cpu_set: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    entries: Assignments<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pod_entries: BTreeMap<String, PodEntry>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodEntry {
    #[serde(skip_serializing_if = "String::is_empty")]
    cpu_set: String,
}

impl CpuCheckpoint {
    /// The bytes of the file.
    pub fn encode(&self) -> Result<String, CpuCheckpointError> {
        let texts = |containers: &BTreeMap<String, CpuSet>| {
            containers.iter().map(|(name, cpus)| (name.clone(), cpus.to_string())).collect()
        };
        let state = &self.state;
        let entries = || state.containers.iter().map(|(uid, own)| (uid.clone(), texts(own))).collect();
        let pod_entry =
            |(uid, cpus): (&String, &CpuSet)| (uid.clone(), PodEntry { cpu_set: cpus.to_string() });
        let data = go_json(&Data {
            policy_name: self.policy.clone(),
            default_cpu_set: state.shared.to_string(),
            entries: entries(),
            pod_entries: state.pods.iter().map(pod_entry).collect(),
        })?;
        let mut file = File {
            policy_name: self.policy.clone(),
            default_cpu_set: state.shared.to_string(),
            entries: entries(),
            data_checksum: text_checksum(&data),
            data,
            ..File::default()
        };
        file.checksum = file.checksum_as("CPUManagerCheckpoint", None);
        Ok(go_json(&file)?)
    }

    /// Reads the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, CpuCheckpointError> {
        let file: File = serde_json::from_slice(bytes)?;
        let data = if file.data.is_empty() && file.data_checksum == 0 {
            file.checked_as_before()?
        } else {
            let found = text_checksum(&file.data);
            if found != file.data_checksum {
                return Err(CpuCheckpointError::Checksum { found, expected: file.data_checksum });
            }
            serde_json::from_str(&file.data)?
        };
        let sets = |containers: BTreeMap<String, String>| -> Result<BTreeMap<_, _>, CpuListError> {
            containers.into_iter().map(|(name, cpus)| Ok((name, cpus.parse()?))).collect()
        };
        let containers = data.entries.into_iter().map(|(uid, own)| Ok((uid, sets(own)?)));
        let pods = data.pod_entries.into_iter().map(|(uid, own)| Ok((uid, own.cpu_set.parse()?)));
        let state = CpuState {
            shared: data.default_cpu_set.parse()?,
            containers: containers.collect::<Result<_, CpuListError>>()?,
            pods: pods.collect::<Result<_, CpuListError>>()?,
        };
        Ok(Self { policy: data.policy_name, state })
    }
}

impl File {
    /// The content of version 3, or of version 2 before it, which has no pods and may have no checksum.
    fn checked_as_before(self) -> Result<Data, CpuCheckpointError> {
        let pods: Result<Vec<String>, CpuListError> = self.pod_entries.iter().map(dump_pod).collect();
        let pods = format!("map[{}]", pods?.join(" "));
        let is_any = |names: [&str; 2], pods: Option<&str>| {
            names.iter().any(|name| self.checksum_as(name, pods) == self.checksum)
        };
        let is_third = is_any(["CPUManagerCheckpointV3", "CPUManagerCheckpoint"], Some(&pods));
        let is_second =
            || self.checksum == 0 || is_any(["CPUManagerCheckpointV2", "CPUManagerCheckpoint"], None);
        if !is_third && !is_second() {
            let found = self.checksum_as("CPUManagerCheckpoint", None);
            return Err(CpuCheckpointError::Checksum { found, expected: self.checksum });
        }
        let pod_entries = if is_third { self.pod_entries } else { BTreeMap::new() };
        let Self { policy_name, default_cpu_set, entries, .. } = self;
        Ok(Data { policy_name, default_cpu_set, entries, pod_entries })
    }

    /// The checksum of the fields of this Go type.
    fn checksum_as(&self, name: &str, pods: Option<&str>) -> u64 {
        let containers = self.entries.iter().map(|(uid, own)| (uid.clone(), dump_map(own.clone())));
        let (policy, shared, entries) = (&self.policy_name, &self.default_cpu_set, dump_map(containers));
        let pods =
            pods.map(|pods| format!(" PodEntries:(state.PodCPUAssignments){pods}")).unwrap_or_default();
        checksum(&format!(
            "(*state.{name}){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} \
             Entries:(map[string]map[string]string){entries}{pods} Checksum:(checksum.Checksum)0}}"
        ))
    }
}

fn dump_pod((uid, own): (&String, &PodEntry)) -> Result<String, CpuListError> {
    let cpus: CpuSet = own.cpu_set.parse()?;
    let cpus = dump_map(cpus.iter().map(|cpu| (cpu.to_string(), "{}".to_owned())));
    Ok(format!("{uid}:{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){cpus}}}}}"))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
