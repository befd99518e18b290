//! The mounted volumes of pods whose data outlives the pod: local volumes and NFS. Plain values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::PodRef;

/// A directory of this host, or an export of a server, that is mounted for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalVolume {
    /// Where it is mounted.
    pub dir: PathBuf,
    /// The path on this host, or the server, that the volume depends on: all volumes of one unit block together.
    pub unit: PathBuf,
    /// The volume of a CSI driver that it is.
    pub driver: Option<DriverVolume>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverVolume {
    /// The driver's name.
    pub driver: Arc<str>,
    /// The driver's identifier of the volume.
    pub handle: String,
    /// Whether it is a block device, whose use only the driver knows.
    pub is_block: bool,
}

/// Each pod's external volumes that are set up, by the name of the volume.
pub type ExternalVolumes = BTreeMap<PodRef, BTreeMap<String, ExternalVolume>>;
