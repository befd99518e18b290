//! What the worker gets of a pod's volumes: what can be used, and why the rest cannot. Plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hostlet_pod::ExternalVolume;

use super::error::VolumeProblem;

/// A volume that is ready for mounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where it is on the host: the source of the containers' mounts.
    pub host_path: PathBuf,
    /// Whether it is always mounted read-only.
    pub read_only: bool,
    /// Whether the runtime relabels it for SELinux.
    pub relabel: bool,
}

/// A volume that is a block device, ready for use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Where it is on the host: a device, or a link to one.
    pub host_path: PathBuf,
    /// Whether containers can only read it.
    pub read_only: bool,
}

/// The result of setting up a pod's volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// The ready volumes that are directories or files, by name.
    pub mounted: BTreeMap<String, Mounted>,
    /// The ready volumes that are block devices, by name.
    pub devices: BTreeMap<String, Device>,
    /// Problems: of volumes that are not ready, and of those that are not up to date.
    pub problems: Vec<VolumeProblem>,
    /// Volumes that were mounted just now although other pods have them with another group.
    pub shared: Vec<String>,
    /// The ready volumes that are mounts of what outlives the pod, by name.
    pub external: BTreeMap<String, ExternalVolume>,
    /// The groups that the volumes give to the pod's processes.
    pub groups: BTreeSet<i64>,
}

impl PodVolumes {
    /// Whether a volume can be used.
    pub fn is_ready(&self, name: &str) -> bool {
        self.mounted.contains_key(name) || self.devices.contains_key(name)
    }
}
