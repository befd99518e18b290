//! The measured storage of a pod. Plain values.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use hostlet_host::{FilesystemUsage, SpaceUsage};

/// The disk space of a pod, as far as it has been measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStorage {
    /// Each measured volume.
    pub volumes: BTreeMap<String, VolumeUsage>,
    /// What its containers take; `None` if that is not measured, or not yet.
    pub containers: Option<ContainersStorage>,
}

/// The space of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// When it was measured.
    pub at: Timestamp,
    /// What is in it; no more than what was asked for is counted. Of a volume that outlives the pod, what its filesystem has.
    pub space: SpaceUsage,
    /// The filesystem that has it.
    pub filesystem: FilesystemUsage,
}

/// The disk space of a pod's running containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainersStorage {
    /// Each running container.
    pub by_name: BTreeMap<Arc<str>, ContainerStorage>,
    /// Bytes in the pod's own files: those in its log directory, and its hosts file.
    pub pod_files: u64,
}

/// The disk space of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerStorage {
    /// Bytes in its writable layer.
    pub writable_layer: u64,
    /// Whether the writable layer is on another filesystem than the daemon's directory.
    pub is_layer_elsewhere: bool,
    /// Bytes in its logs, including logs of its earlier instances.
    pub logs: u64,
}
