//! Upstream's format of the checkpoint, as JSON with a checksum. Pure.

use std::collections::BTreeMap;

use hostlet_base::PodUid;
use hostlet_proto::device_plugin::ContainerAllocateResponse;
use prost::Message;
use serde::{Deserialize, Serialize};

use super::checksum::checksum;
use super::data::{Bytes, Data, Entry};
use crate::allocation::{Allocation, Allocations};
use crate::device::DeviceIds;

/// The file.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    #[serde(rename = "Data")]
    data: Data,
    #[serde(rename = "Checksum")]
    checksum: u64,
}

/// Why a checkpoint is not as it was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    /// It cannot be read at all.
    #[error("it is not a checkpoint of devices")]
    Json(#[from] serde_json::Error),
    /// Something changed it.
    #[error("its checksum is {found}, and {expected} would be right")]
    Checksum {
        /// What the file says.
        found: u64,
        /// That of its data.
        expected: u64,
    },
    /// A response of a plugin cannot be decoded.
    #[error("the response for container {container} of pod {uid} cannot be decoded")]
    Response {
        /// The pod's UID.
        uid: String,
        /// The container.
        container: String,
        /// What is wrong.
        source: prost::DecodeError,
    },
}

/// The registered devices and the allocations of a checkpoint, as far as they can be read, and what is wrong with it.
#[derive(Default)]
pub(crate) struct Decoded {
    pub(crate) registered: BTreeMap<String, DeviceIds>,
    pub(crate) allocations: Allocations,
    pub(crate) problem: Option<FormatError>,
}

/// What is written of what can be read of a checkpoint, and whether something is wrong with it. For fuzzers.
pub fn recode(bytes: &[u8]) -> (Vec<u8>, bool) {
    let decoded = read(bytes);
    (encode(&decoded.registered, &decoded.allocations), decoded.problem.is_some())
}

/// Reads a checkpoint.
pub(crate) fn read(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let Checkpoint { data, checksum: found } = match serde_json::from_slice(bytes) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            decoded.problem = Some(error.into());
            return decoded;
        }
    };
    let expected = checksum(&data);
    if found != expected {
        decoded.problem = Some(FormatError::Checksum { found, expected });
    }
    let registered = data.registered_devices.into_iter().flatten();
    let registered = registered.map(|(name, ids)| (name, ids.into_iter().flatten().collect()));
    decoded.registered = registered.collect();
    for entry in data.pod_device_entries.into_iter().flatten() {
        let Entry { pod_uid, container_name, resource_name, device_ids, alloc_resp } = entry;
        match ContainerAllocateResponse::decode(
            alloc_resp.map(|bytes| bytes.0).unwrap_or_default().as_slice(),
        ) {
            Ok(response) => {
                let devices = device_ids.into_iter().flatten();
                let devices = devices.map(|(node, ids)| (node, ids.unwrap_or_default())).collect();
                let allocation = Allocation { devices, response };
                let uid = PodUid::from(pod_uid.as_str());
                decoded.allocations.insert(&uid, &container_name, &resource_name, allocation);
            }
            Err(source) => {
                let response = FormatError::Response { uid: pod_uid, container: container_name, source };
                decoded.problem.get_or_insert(response);
            }
        }
    }
    decoded
}

/// Writes a checkpoint.
pub(crate) fn encode(registered: &BTreeMap<String, DeviceIds>, allocations: &Allocations) -> Vec<u8> {
    let entries = allocations.iter().map(|(uid, container, resource, allocation)| Entry {
        pod_uid: uid.to_string(),
        container_name: container.to_owned(),
        resource_name: resource.to_owned(),
        device_ids: Some(allocation.devices.iter().map(|(node, ids)| (*node, Some(ids.clone()))).collect()),
        alloc_resp: Some(Bytes(allocation.response.encode_to_vec())),
    });
    let registered = registered.iter().map(|(name, ids)| (name.clone(), Some(ids.iter().cloned().collect())));
    let data =
        Data { pod_device_entries: Some(entries.collect()), registered_devices: Some(registered.collect()) };
    let checkpoint = Checkpoint { checksum: checksum(&data), data };
    // Maps with keys that are texts or numbers can always be written.
    serde_json::to_vec(&checkpoint).unwrap_or_default()
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
