//! A device as its plugin reports it. Values only.

use std::collections::{BTreeMap, BTreeSet};

/// IDs of devices of one resource.
pub(crate) type DeviceIds = BTreeSet<String>;

/// The devices of one resource, by ID.
pub(crate) type DeviceList = BTreeMap<String, Device>;

/// The NUMA node under which devices without one are recorded (upstream `nodeWithoutTopology`).
pub(crate) const NO_NODE: i64 = -1;

/// Whether a device can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can be.
    Healthy,
    /// Its plugin says otherwise.
    Unhealthy,
    /// Its plugin no longer mentions it.
    Unknown,
}

impl Health {
    /// As `ResourceHealth.health` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
        }
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) health: Health,
    /// The NUMA nodes that it is close to; empty if its plugin names none.
    pub(crate) nodes: BTreeSet<i64>,
}

impl Device {
    pub(crate) fn is_healthy(&self) -> bool {
        self.health == Health::Healthy
    }
}

/// Groups devices by NUMA node, as upstream records them: one of several nodes is in each of them.
pub(crate) fn by_node(ids: &DeviceIds, list: &DeviceList) -> BTreeMap<i64, Vec<String>> {
    let mut grouped: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for id in ids {
        let nodes = list.get(id).map(|device| &device.nodes).filter(|nodes| !nodes.is_empty());
        match nodes {
            Some(nodes) => nodes.iter().for_each(|node| grouped.entry(*node).or_default().push(id.clone())),
            None => grouped.entry(NO_NODE).or_default().push(id.clone()),
        }
    }
    grouped
}
