//! PersistentVolumeClaims that pods refer to: their state, and what a mount needs of their volumes. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::object::ObjectError;
use crate::migration::MigrationError;

/// The annotation with mount options, older than the field, which it overrides.
pub const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// The annotation with a group that the processes of the volume's pods get.
pub const GROUP: &str = "pv.beta.kubernetes.io/gid";

/// The annotation with the driver that serves a volume now, which once was a volume type of Kubernetes itself.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// A reference to a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    /// Its namespace: the pod's.
    pub namespace: String,
    /// Name of the PersistentVolumeClaim.
    pub name: String,
    /// The UID of the pod that must own the claim: that of a generic ephemeral volume is made for one pod.
    pub owner: Option<String>,
}

/// What is known of a claim at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClaimState {
    /// Requested, not yet known.
    #[default]
    Pending,
    /// Bound to this volume, of which only what a mount needs is kept.
    Bound(Arc<PersistentVolume>),
    /// Cannot be used; the source keeps trying.
    Failed(ClaimError),
}

/// Why a claim cannot be used. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ClaimError {
    /// The claim could not be read.
    #[error("failed to fetch PVC from API server: {0}")]
    FetchClaim(ObjectError),
    /// On a host without an API server, no manifest defines the claim or its volume.
    #[error("no manifest defines the {kind} {name}")]
    Undefined {
        /// What is not defined.
        kind: &'static str,
        /// Its name, of a claim with its namespace.
        name: String,
    },
    /// The claim is being deleted, and nothing delays that.
    #[error("PVC is being deleted")]
    Deleted,
    /// The claim of a generic ephemeral volume was not made for the pod.
    #[error("pod is not owner")]
    NotOwned,
    /// The claim has no volume yet.
    #[error("PVC is not bound")]
    NotBound,
    /// The claim is bound, but names no volume.
    #[error("PVC has empty pvc.Spec.VolumeName")]
    NoVolumeName,
    /// The volume could not be read.
    #[error("failed to fetch PV {name} from API server: {error}")]
    FetchVolume {
        name: String,
        /// Why.
        error: ObjectError,
    },
    /// The volume names no claim.
    #[error(
        "found PV object {0} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    NotClaimed(String),
    /// The volume belongs to another claim, perhaps an earlier one of the same name.
    #[error(
        "found PV object {name} but its pv.Spec.ClaimRef.UID {found} does not point to claim.UID {expected}"
    )]
    OtherClaim {
        name: String,
        /// The UID of the claim that it belongs to.
        found: String,
        /// The UID of this claim.
        expected: String,
    },
    /// The volume is of a type that a CSI driver serves now, and cannot be translated to one of that driver.
    #[error("failed to translate in-tree pv to CSI: {0}")]
    Migration(MigrationError),
    /// On a host without an API server, the volume belongs to another claim.
    #[error("found PV object {name} but it belongs to the claim {claim}")]
    ClaimedBy {
        name: String,
        /// The namespace and name of that claim.
        claim: String,
    },
}

/// The name of the claim behind a volume of the pod `pod`, if there is one: the volume names it, or has one of its own (upstream
/// `VolumeClaimName`).
pub fn claim_name(pod: &str, volume: &Volume) -> Option<String> {
    let named = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
    named.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)))
}

/// The volume without what a mount does not need.
pub fn reduced_volume(volume: PersistentVolume) -> PersistentVolume {
    let annotations = volume.metadata.annotations.unwrap_or_default();
    let kept = annotations
        .into_iter()
        .filter(|(key, _)| [MOUNT_OPTIONS, GROUP, MIGRATED_TO].contains(&key.as_str()));
    let annotations = Some(kept.collect()).filter(|kept: &BTreeMap<_, _>| !kept.is_empty());
    let metadata = ObjectMeta { name: volume.metadata.name, annotations, ..ObjectMeta::default() };
    PersistentVolume { metadata, spec: volume.spec, status: None }
}
