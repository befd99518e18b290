//! The volumes of pods that are mounts of what outlives them, as far as they are set up. Plain values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::types::PodRef;

/// A directory of this host, or an export of a server, that is mounted for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalVolume {
    /// Where it is mounted.
    pub dir: PathBuf,
    /// The path or the server. All volumes on one server block together.
    pub unit: PathBuf,
}

/// Those of each pod, by the name of the volume.
pub type ExternalVolumes = BTreeMap<PodRef, BTreeMap<String, ExternalVolume>>;
