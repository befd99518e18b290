//! What is measured of a pod, and where it is. Plain values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::types::PodRef;

/// The storage of a pod that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlaces {
    /// The pod.
    pub pod: PodRef,
    /// Its volumes, by name.
    pub volumes: BTreeMap<String, VolumePlace>,
    /// The pod's hosts file, if its containers are measured too: their writable layers and logs.
    pub containers: Option<PathBuf>,
}

/// A volume that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// Its directory.
    pub path: PathBuf,
    /// Bytes above which its exact size does not matter.
    pub enough: u64,
}
