//! Devices and slices as objects of `resource.k8s.io`, in each version that hostlet writes, and back. Pure.

use std::borrow::Borrow;
use std::fmt;

use kube::core::{ApiResource, NotUsed, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::device::{AttributeValue, Device, Problem, Problems};
use super::legal::VALUE_MAX;

/// A ResourceSlice of any version.
pub(super) type Slice = Object<SliceSpec, NotUsed>;

/// The part of a ResourceSlice's spec that hostlet reads.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SliceSpec {
    pub(super) driver: String,
    pub(super) node_name: Option<String>,
    pub(super) pool: Pool,
    /// In the server's form; `null` if there are none.
    pub(super) devices: Option<Vec<Value>>,
}

/// The pool of a slice.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) generation: i64,
    pub(super) resource_slice_count: i64,
}

/// A version of `resource.k8s.io` with ResourceSlices that have devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta2,
    V1Beta1,
}

impl Version {
    /// The most recent one first.
    pub(super) const ALL: [Self; 3] = [Self::V1, Self::V1Beta2, Self::V1Beta1];

    /// The resource for requests.
    pub(super) fn resource(self) -> ApiResource {
        ApiResource {
            group: "resource.k8s.io".to_owned(),
            version: self.to_string(),
            api_version: format!("resource.k8s.io/{self}"),
            kind: "ResourceSlice".to_owned(),
            plural: "resourceslices".to_owned(),
        }
    }

    /// A device in this version: until v1beta1, its fields were in `basic`.
    pub(super) fn device(self, device: Value) -> Value {
        match self {
            Self::V1 | Self::V1Beta2 => device,
            Self::V1Beta1 => match device {
                Value::Object(mut fields) => {
                    let name = fields.remove("name").unwrap_or_default();
                    json!({"name": name, "basic": fields})
                }
                other => other,
            },
        }
    }

    /// The opposite of [`Version::device`].
    fn flat(self, device: Value) -> Value {
        match (self, device) {
            (Self::V1Beta1, Value::Object(mut fields)) => {
                if let Some(Value::Object(basic)) = fields.remove("basic") {
                    fields.extend(basic);
                }
                Value::Object(fields)
            }
            (Self::V1 | Self::V1Beta2 | Self::V1Beta1, device) => device,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V1Beta2 => "v1beta2",
            Self::V1Beta1 => "v1beta1",
        })
    }
}

/// How lists are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListForm {
    /// As attributes with a list, which the API server stores only with the feature gate `DRAListTypeAttributes` (KEP-5491).
    Native,
    /// As a string: the items joined by commas.
    Joined,
}

impl ListForm {
    /// Maximum number of devices in a slice; with lists it is lower.
    pub(super) fn devices_max(self, has_lists: bool) -> usize {
        match self {
            Self::Native if has_lists => 64,
            Self::Native | Self::Joined => 128,
        }
    }
}

/// A device in the form of v1.
pub(super) fn device(device: &Device, lists: ListForm) -> Value {
    let attributes = device
        .attributes
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), attribute(value, lists)?)));
    let capacity = device.capacity.iter().map(|(name, value)| (name.to_string(), json!({"value": value})));
    let mut fields = Map::new();
    fields.insert("name".to_owned(), Value::from(&*device.name));
    for (field, entries) in
        [("attributes", attributes.collect()), ("capacity", capacity.collect::<Map<_, _>>())]
    {
        if !entries.is_empty() {
            fields.insert(field.to_owned(), Value::Object(entries));
        }
    }
    Value::Object(fields)
}

/// An attribute; `None` for a list that cannot be joined.
fn attribute(value: &AttributeValue, lists: ListForm) -> Option<Value> {
    Some(match (value, lists) {
        (AttributeValue::Bool(value), _) => json!({"bool": value}),
        (AttributeValue::Int(value), _) => json!({"int": value}),
        (AttributeValue::String(value), _) => json!({"string": value}),
        (AttributeValue::Version(value), _) => json!({"version": value}),
        (AttributeValue::Ints(list), ListForm::Native) => json!({"ints": list}),
        (AttributeValue::Strings(list), ListForm::Native) => json!({"strings": list}),
        (AttributeValue::Ints(_) | AttributeValue::Strings(_), ListForm::Joined) => {
            json!({"string": joined(value).ok()?})
        }
    })
}

/// Why a list has no joined form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotJoined {
    /// An item has a comma, so the list would be ambiguous.
    #[error(
        "left out: the API server stores no lists, and an item with a comma cannot be joined with others"
    )]
    Comma,
    /// Too long together.
    #[error(
        "left out: the API server stores no lists, and the joined items have more than {VALUE_MAX} bytes"
    )]
    TooLong,
}

/// The items of a list joined by commas.
fn joined(value: &AttributeValue) -> Result<String, NotJoined> {
    let text = match value {
        AttributeValue::Ints(list) => list.iter().map(i64::to_string).collect::<Vec<_>>().join(","),
        AttributeValue::Strings(list) if list.iter().any(|item| item.contains(',')) => {
            return Err(NotJoined::Comma);
        }
        AttributeValue::Strings(list) => list.join(","),
        AttributeValue::Bool(_)
        | AttributeValue::Int(_)
        | AttributeValue::String(_)
        | AttributeValue::Version(_) => String::new(),
    };
    if text.len() > VALUE_MAX { Err(NotJoined::TooLong) } else { Ok(text) }
}

pub(super) fn left_out(devices: &[Device], lists: ListForm) -> Problems {
    let mut problems = Problems::default();
    let devices = devices.iter().filter(|_| lists == ListForm::Joined);
    for (device, (name, value)) in devices.flat_map(|d| d.attributes.iter().map(move |entry| (d, entry))) {
        if let Err(rule) = joined(value) {
            problems.add(Problem::of_attribute(&device.name, name, rule.to_string()));
        }
    }
    problems
}

/// A digest of the content of a slice. Equal digests mean equal devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Digest([u8; 16]);

impl Digest {
    /// Of devices in the form of v1.
    pub(super) fn of(devices: impl IntoIterator<Item = impl Borrow<Value>>) -> Self {
        let mut hash = Sha256::new();
        for device in devices {
            // Fields are sorted.
            hash.update(device.borrow().to_string());
            hash.update([0]);
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        Self(digest)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A short key of a device's name. A collision could at most move a device to another slice.
pub(super) fn name_key(name: &str) -> u64 {
    let hash = Sha256::digest(name);
    let mut key = [0; 8];
    key.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(key)
}

/// A slice of the API server in a few bytes, as far as the reconciler needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedSlice {
    /// Name of the object.
    pub(super) name: String,
    pub(super) uid: String,
    /// `resourceVersion`.
    pub(super) version: String,
    pub(super) generation: i64,
    /// `resourceSliceCount`.
    pub(super) count: i64,
    /// UID of the Node that owns it.
    pub(super) owner: Option<String>,
    pub(super) digest: Digest,
    /// Keys of the devices' names.
    pub(super) devices: Box<[u64]>,
}

impl ObservedSlice {
    /// The slice in an object of this version.
    pub(super) fn of(slice: Slice, version: Version) -> Self {
        let devices: Vec<Value> =
            slice.spec.devices.unwrap_or_default().into_iter().map(|device| version.flat(device)).collect();
        let owners = slice.metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.kind == "Node" && owner.controller == Some(true));
        let key = |device: &Value| name_key(device["name"].as_str().unwrap_or_default());
        Self {
            name: slice.metadata.name.unwrap_or_default(),
            uid: slice.metadata.uid.unwrap_or_default(),
            version: slice.metadata.resource_version.unwrap_or_default(),
            generation: slice.spec.pool.generation,
            count: slice.spec.pool.resource_slice_count,
            owner: owner.map(|owner| owner.uid),
            digest: Digest::of(&devices),
            devices: devices.iter().map(key).collect(),
        }
    }

    /// Whether this is a later version of the same object than `other`. Versions are increasing numbers (guaranteed since
    /// Kubernetes 1.35); otherwise the one that arrives later counts as newer.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        if self.uid != other.uid {
            return true;
        }
        match (self.version.parse::<u64>(), other.version.parse::<u64>()) {
            (Ok(new), Ok(old)) => new > old,
            _ => self.version != other.version,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn example() -> Device {
        let strings =
            |items: &[&str]| AttributeValue::Strings(items.iter().map(|item| (*item).into()).collect());
        let attributes: Vec<(Arc<str>, AttributeValue)> = vec![
            ("bool".into(), AttributeValue::Bool(true)),
            ("comma".into(), strings(&["a,b", "c"])),
            ("int".into(), AttributeValue::Int(-7)),
            ("ints".into(), AttributeValue::Ints([1, 2].into())),
            ("string".into(), AttributeValue::String("x".into())),
            ("strings".into(), strings(&["a", "b"])),
            ("version".into(), AttributeValue::Version("1.2.3".into())),
        ];
        Device {
            name: "gpu-0".into(),
            attributes: attributes.into(),
            capacity: [("memory".into(), "16Gi".into())].into(),
        }
    }

    #[test]
    fn a_device_in_the_form_of_v1() {
        let native = json!({
            "name": "gpu-0",
            "attributes": {
                "bool": {"bool": true}, "comma": {"strings": ["a,b", "c"]}, "int": {"int": -7}, "ints": {"ints": [1, 2]},
                "string": {"string": "x"}, "strings": {"strings": ["a", "b"]}, "version": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "16Gi"}},
        });
        assert_eq!(device(&example(), ListForm::Native), native);
        let joined = device(&example(), ListForm::Joined);
        assert_eq!(joined["attributes"]["ints"], json!({"string": "1,2"}));
        assert_eq!(joined["attributes"]["strings"], json!({"string": "a,b"}));
        assert!(joined["attributes"]["comma"].is_null());
        let left_out = left_out(&[example()], ListForm::Joined).lines();
        assert!(
            left_out.len() == 1 && left_out[0].contains("instance \"gpu-0\": attribute \"comma\""),
            "{left_out:?}"
        );
        assert_eq!(super::left_out(&[example()], ListForm::Native), Problems::default());
    }

    #[test]
    fn a_slice_reads_back_the_same_in_each_version() {
        let sent = device(&example(), ListForm::Native);
        for version in Version::ALL {
            let object = json!({
                "apiVersion": version.resource().api_version, "kind": "ResourceSlice",
                "metadata": {"name": "s", "uid": "u", "resourceVersion": "7",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "nu", "controller": true}]},
                "spec": {"driver": "d", "nodeName": "n", "devices": [version.device(sent.clone())],
                    "pool": {"name": "n/hostlet", "generation": 3, "resourceSliceCount": 1}},
            });
            let slice: Slice = hostlet_base::json::from_value(&object).unwrap();
            let observed = ObservedSlice::of(slice, version);
            assert_eq!(observed.digest, Digest::of([&sent]), "{version}");
            assert_eq!(
                (&*observed.devices, observed.generation, observed.count),
                (&[name_key("gpu-0")][..], 3, 1)
            );
            assert_eq!(observed.owner.as_deref(), Some("nu"));
        }
    }

    #[test]
    fn a_newer_version_is_recognized() {
        let empty =
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {}, "spec": {}});
        let slice = ObservedSlice::of(hostlet_base::json::from_value(&empty).unwrap(), Version::V1);
        let version = |version: &str| ObservedSlice { version: version.to_owned(), ..slice.clone() };
        assert!(version("10").is_newer_than(&version("9")) && !version("9").is_newer_than(&version("10")));
        assert!(!version("9").is_newer_than(&version("9")) && version("b").is_newer_than(&version("a")));
    }
}
