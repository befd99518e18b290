//! What pods use of what the node runs out of. Plain values, and the trait by which they are measured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use hostlet_base::PodUid;
use hostlet_base::node::Signal;
use hostlet_observe::stats::{MeasureError, SignalReport};

use super::alarms::MemoryNotice;

/// Space and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Blocks on the disk, in bytes.
    pub bytes: u64,
    /// Number of inodes.
    pub inodes: u64,
}

impl DiskSpace {
    /// Both together; the largest number if that is larger.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// What a running container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerConsumption {
    /// Its working set, bytes; `None` if it could not be read.
    pub memory: Option<u64>,
    /// Its writable layer; `None` if it was not measured.
    pub layer: Option<DiskSpace>,
    /// Its logs; `None` if they were not measured.
    pub logs: Option<DiskSpace>,
    /// Its image as the runtime names it.
    pub image: String,
}

/// What a pod uses that has running containers, or volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodConsumption {
    /// Its working set, bytes; `None` if it could not be read.
    pub memory: Option<u64>,
    /// Number of processes in its containers.
    pub processes: u64,
    /// Its volumes on the node's disk that end with it.
    pub volumes: DiskSpace,
    /// Its running containers, by name.
    pub containers: BTreeMap<Arc<str>, ContainerConsumption>,
}

impl PodConsumption {
    /// What the images of its containers are called.
    pub(super) fn images(&self) -> BTreeSet<&str> {
        self.containers.values().map(|container| &*container.image).collect()
    }
}

/// What the pods with running containers use; on disks also those that only have volumes now.
pub type PodsConsumption = BTreeMap<PodUid, PodConsumption>;

/// Observes the node, and its pods.
#[async_trait]
pub trait NodeObserver: Send + Sync {
    /// What is left of the node's resources.
    async fn look(&self) -> SignalReport;

    /// What pods use of what this signal is about.
    ///
    /// # Errors
    /// It cannot be measured now.
    async fn pods(&self, starved: Signal) -> Result<PodsConsumption, Arc<MeasureError>>;

    /// Waits until the kernel says something of memory; forever if it does not. Must be cancel-safe.
    async fn noticed(&self) -> MemoryNotice;
}
