//! A pod's request for a volume, and its state. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hostlet_base::{PodRef, PodUid};
use hostlet_host::GroupChange;

use crate::{AccessMode, Form, Secrets, VolumeId};

/// A Secret is not available. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MissingSecret(pub String);

/// The claim behind a pod's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOfPod {
    /// The pod, whose namespace is that of the claim.
    pub pod: PodRef,
    /// The name of the claim.
    pub name: String,
    /// The name of its PersistentVolume.
    pub volume: String,
    /// Whether the pod can only read it.
    pub read_only: bool,
}

/// A request for a volume. Contains everything about the pod that the driver needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The volume.
    pub id: VolumeId,
    /// The pod.
    pub pod: PodUid,
    /// The name of the PersistentVolume, or of the pod's volume if it only lives in the pod.
    pub spec_name: String,
    /// Whether it only lives in the pod (`volumes[].csi`): it is neither attached nor staged.
    pub is_ephemeral: bool,
    /// Whether a controller attaches it first.
    pub is_attached: bool,
    /// As what it is used.
    pub form: Form,
    /// By whom it may be used.
    pub access_mode: AccessMode,
    /// Whether the pod can only read it.
    pub read_only: bool,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// Facts about the pod, tokens, that the driver gets with its attributes.
    pub pod_attributes: BTreeMap<String, String>,
    /// For the driver when it stages.
    pub stage_secrets: Secrets,
    /// For the driver when it publishes.
    pub publish_secrets: Secrets,
    /// The pod's group (`fsGroup`), for a driver with `VOLUME_MOUNT_GROUP`.
    pub group: Option<i64>,
    /// The group that hostlet sets on the files if the driver does not; `None` also if `fsGroupPolicy` forbids it.
    pub own_group: Option<(u32, GroupChange)>,
    /// Whether it is published again from time to time, with new attributes (`requiresRepublish`).
    pub is_republished: bool,
    /// The SELinux label that it is mounted with (`seLinuxMount`), if the driver supports that.
    pub se_linux_label: Option<String>,
    /// The claim that says how large it is; `None` if the pod's spec names the volume.
    pub claim: Option<ClaimOfPod>,
    /// Whether it is a volume of a type that Kubernetes once mounted itself, and that its driver serves now.
    pub is_migrated: bool,
    /// For the driver when it grows the volume (`nodeExpandSecretRef`).
    pub expand_secrets: Result<Secrets, MissingSecret>,
}

/// A volume that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where it is: the mount, or the device.
    pub path: PathBuf,
}

/// The state of a requested volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishState {
    /// In progress, and nothing has failed yet.
    Working,
    /// The last attempt failed; it is tried again. The text is that of upstream's event `FailedMount` or `FailedAttachVolume`.
    Failed(String),
    /// The node has no room for another volume of the driver: its pod cannot run here. Tried again while the pod is here.
    Exhausted,
    /// It can be used.
    Published(Published),
}
