//! What users and agents of this host are told of devices. Values only.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Devices of one resource, and the NUMA nodes that they are, or were when they were allocated, close to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDevices {
    /// The resource.
    pub resource: String,
    /// The devices with their NUMA nodes; none if their plugin names none.
    pub devices: BTreeMap<String, BTreeSet<i64>>,
}

/// A resource of device plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceView {
    /// Its name, such as `example.com/gpu`.
    pub resource: String,
    /// Whether a plugin serves it.
    pub plugin: PluginPhase,
    /// Since when.
    pub since: Option<Timestamp>,
    /// The sockets of its plugins, the oldest first; several during an update.
    pub sockets: Vec<String>,
    /// The number of devices.
    pub capacity: usize,
    /// The number of devices that can be used now.
    pub allocatable: usize,
    /// What pods wait for, if they would; a clause.
    pub awaited: Option<String>,
    /// The devices, by ID, also those that are allocated and that the plugin no longer lists.
    pub devices: Vec<DeviceView>,
}

/// Whether a plugin serves a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PluginPhase {
    /// It listed its devices.
    Registered,
    /// It is connected and has not listed devices.
    Connected,
    /// It is not there.
    Away,
}

impl std::fmt::Display for PluginPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Registered => "Registered",
            Self::Connected => "Connected",
            Self::Away => "Away",
        })
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceView {
    /// Its ID.
    pub id: String,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    pub health: String,
    /// The NUMA nodes that it is close to.
    pub numa_nodes: Vec<i64>,
    /// Who has it: init containers may share one with other containers of their pod.
    pub holders: Vec<HolderView>,
}

/// A container that has a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderView {
    /// The pod's UID.
    pub uid: String,
    /// The pod, as `namespace/name`; `None` if it is not known.
    pub pod: Option<String>,
    /// The container's name.
    pub container: String,
}
