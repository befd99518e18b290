//! The volumes of this node as people see them. Written by the daemon, read by the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the node does with a volume at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumePhase {
    /// The driver is not registered.
    WaitingForDriver,
    /// Waiting for the attach-detach controller.
    Attaching,
    /// `NodeStageVolume` is in progress.
    Staging,
    /// `NodePublishVolume` is in progress.
    Publishing,
    /// `NodeExpandVolume` is in progress.
    Expanding,
    /// `NodeUnpublishVolume` is in progress.
    Unpublishing,
    /// `NodeUnstageVolume` is in progress.
    Unstaging,
    /// The last attempt failed; it is retried.
    Failing,
    /// Published for all pods that requested it.
    Published,
    /// On the node, and no pod requests it.
    Idle,
}

impl fmt::Display for VolumePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A volume of a CSI driver on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeView {
    /// The driver's name.
    pub driver: String,
    /// The driver's identifier of the volume.
    pub handle: String,
    /// The name of the PersistentVolume, or of the pod's volume if it only lives in one.
    pub name: String,
    /// What the node does with it.
    pub phase: VolumePhase,
    /// Since when.
    pub since: Timestamp,
    /// Whether a controller attaches it.
    pub attached: bool,
    /// Where it is staged, or may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<String>,
    /// Why the last attempt failed, until one succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it is tried again; absent if that waits for a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry: Option<Timestamp>,
    /// The pods that have or request it.
    pub pods: Vec<VolumePod>,
}

/// A pod that has or requests a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumePod {
    /// Its UID.
    pub uid: String,
    /// Its namespace and name, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Whether it is published for the pod.
    pub published: bool,
    /// Where it is published, or may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
