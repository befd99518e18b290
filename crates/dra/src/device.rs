//! A device of a claim as its driver described it. No behavior beyond that.

use serde::{Deserialize, Serialize};

/// A device that a driver prepared. The field names are those of upstream's checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Device {
    /// Its pool.
    pub pool_name: String,
    /// Its name in the pool.
    pub device_name: String,
    /// The share of a device with consumable capacity.
    #[serde(rename = "ShareID", default)]
    pub share_id: Option<String>,
    /// The requests of the claim that it is for; none is all of them.
    #[serde(default, deserialize_with = "null_is_empty", serialize_with = "empty_is_null")]
    pub request_names: Vec<String>,
    /// What the runtime gives containers.
    #[serde(
        rename = "CDIDeviceIDs",
        default,
        deserialize_with = "null_is_empty",
        serialize_with = "empty_is_null"
    )]
    pub cdi_device_ids: Vec<String>,
}

impl Device {
    /// Whether a container that uses this request of the claim gets the device; `None` is the whole claim.
    pub(crate) fn is_for(&self, request: Option<&str>) -> bool {
        let is_named = |request: &str| self.request_names.iter().any(|name| name == request);
        self.request_names.is_empty() || request.is_none_or(is_named)
    }
}

/// Go writes lists without items as `null`.
pub(crate) fn empty_is_null<S, T>(list: &[T], serializer: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
    T: Serialize,
{
    if list.is_empty() { serializer.serialize_none() } else { list.serialize(serializer) }
}

/// The reverse.
pub(crate) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
