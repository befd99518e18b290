//! The data of upstream's checkpoint, as JSON. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What the checksum is of. Go tells `null` from an empty list.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Data {
    pub(super) pod_device_entries: Option<Vec<Entry>>,
    pub(super) registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// A container's devices of one resource.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
    #[serde(rename = "PodUID")]
    pub(super) pod_uid: String,
    pub(super) container_name: String,
    pub(super) resource_name: String,
    #[serde(rename = "DeviceIDs")]
    pub(super) device_ids: Option<BTreeMap<i64, Option<Vec<String>>>>,
    pub(super) alloc_resp: Option<Bytes>,
}

/// Bytes in base64, as Go's JSON has them.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        BASE64_STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}
