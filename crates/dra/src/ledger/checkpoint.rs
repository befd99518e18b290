//! The content of `dra_manager_state`, in upstream's format: JSON in JSON with a checksum. hostlet adds one field, which upstream ignores:
//! in which boot of the host a claim was prepared, so that a new daemon need not prepare it again. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::{PodUid, go_json};
use serde::{Deserialize, Serialize};

use super::claim::{Claim, ClaimKey, Goal, Part, PartState};
use super::state::Ledger;
use crate::Device;
use crate::device::{empty_is_null, null_is_empty};

const KIND: &str = "DRACheckpoint";
const API_VERSION: &str = "checkpoint.dra.kubelet.k8s.io/v1";

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    #[error("it is not the JSON of a checkpoint")]
    Outer(#[source] serde_json::Error),
    #[error("it is damaged: its checksum is {stated}, that of its data {computed}")]
    Checksum { stated: u32, computed: u32 },
    #[error("its data is not the JSON of claims")]
    Data(#[source] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Outer {
    data: String,
    checksum: u32,
}

#[derive(Serialize, Deserialize)]
struct Data {
    #[serde(default)]
    kind: String,
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(rename = "ClaimInfoStateList", default, deserialize_with = "null_is_empty")]
    claims: Vec<ClaimRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ClaimRow {
    #[serde(rename = "ClaimUID")]
    claim_uid: String,
    claim_name: String,
    namespace: String,
    #[serde(rename = "PodUIDs", default, deserialize_with = "null_is_empty")]
    pod_uids: BTreeMap<String, Empty>,
    #[serde(default, deserialize_with = "null_is_empty")]
    driver_state: BTreeMap<String, DriverRow>,
    /// hostlet's own.
    #[serde(rename = "preparedInBoot", default, skip_serializing_if = "Option::is_none")]
    prepared_in_boot: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Empty {}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DriverRow {
    #[serde(default, deserialize_with = "null_is_empty", serialize_with = "empty_is_null")]
    devices: Vec<Device>,
    #[serde(rename = "skipNodeOperations", default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

/// The file's content for these claims, in this boot of the host.
///
/// # Errors
/// Never for what a ledger can have.
pub(crate) fn encode(ledger: &Ledger, boot: &str) -> Result<String, serde_json::Error> {
    let row = |((namespace, name), claim): (&ClaimKey, &Claim)| ClaimRow {
        claim_uid: claim.uid.clone(),
        claim_name: name.clone(),
        namespace: namespace.clone(),
        pod_uids: claim.pods.iter().map(|pod| (pod.to_string(), Empty {})).collect(),
        driver_state: claim
            .parts
            .iter()
            .map(|(driver, part)| {
                (driver.clone(), DriverRow { devices: part.devices.clone(), skipped: part.skipped.clone() })
            })
            .collect(),
        prepared_in_boot: claim.is_prepared().then(|| boot.to_owned()),
    };
    let data = Data {
        kind: KIND.to_owned(),
        api_version: API_VERSION.to_owned(),
        claims: ledger.claims().iter().map(row).collect(),
    };
    let data = go_json(&data)?;
    let checksum = crc32fast::hash(data.as_bytes());
    go_json(&Outer { data, checksum })
}

/// The claims of a file that any kubelet wrote. Whether drivers were called for them is uncertain, except for those that hostlet prepared
/// in this boot.
pub(crate) fn decode(content: &[u8], boot: &str) -> Result<Ledger, CheckpointError> {
    let outer: Outer = serde_json::from_slice(content).map_err(CheckpointError::Outer)?;
    let computed = crc32fast::hash(outer.data.as_bytes());
    if computed != outer.checksum {
        return Err(CheckpointError::Checksum { stated: outer.checksum, computed });
    }
    let data: Data = serde_json::from_str(&outer.data).map_err(CheckpointError::Data)?;
    let claim = |row: ClaimRow| {
        let is_prepared = row.prepared_in_boot.as_deref() == Some(boot);
        let part = |row: DriverRow| Part {
            state: if is_prepared { PartState::Done } else { PartState::Uncertain },
            devices: row.devices,
            skipped: row.skipped,
            error: None,
        };
        let claim = Claim {
            uid: row.claim_uid,
            pods: row.pod_uids.into_keys().map(PodUid::from).collect::<BTreeSet<PodUid>>(),
            goal: Goal::Prepared,
            parts: row.driver_state.into_iter().map(|(driver, row)| (driver, part(row))).collect(),
        };
        ((row.namespace, row.claim_name), claim)
    };
    Ok(Ledger::restored(data.claims.into_iter().map(claim).collect()))
}
