//! Why a pod's claims are not prepared, or not released. The texts are upstream's, which name the driver or the claim that is waited for.

use hostlet_pod::objects::ObjectError;

use crate::ledger::AttachError;

/// Why a pod's claims are not prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The claim of a template does not exist yet.
    #[error("pod \"{pod}\": ResourceClaim not created yet")]
    NotCreated {
        /// Namespace and name.
        pod: String,
    },
    /// The API has a kind of claims that hostlet does not know.
    #[error("pod \"{pod}\", spec.resourceClaim {claim:?}: none of the supported fields are set")]
    UnknownKind {
        /// Namespace and name.
        pod: String,
        /// The name in the pod.
        claim: String,
    },
    /// The claim could not be read.
    #[error("fetch ResourceClaim {name}: {error}")]
    Fetch {
        /// Its name.
        name: String,
        /// Why.
        error: ObjectError,
    },
    /// The claim of this name belongs to somebody else.
    #[error("ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)")]
    NotOwner {
        /// Namespace and name.
        claim: String,
        /// Namespace and name.
        pod: String,
    },
    /// The scheduler has not reserved the claim for the pod.
    #[error("pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})")]
    NotReserved {
        /// Its name.
        pod: String,
        /// Its UID.
        pod_uid: String,
        /// Its name.
        claim: String,
        /// Its UID.
        claim_uid: String,
    },
    /// No device was allocated for the claim.
    #[error("ResourceClaim {0}: not allocated")]
    NotAllocated(String),
    /// A driver is not here.
    #[error("DRA driver {0} is not registered")]
    NotRegistered(String),
    /// The claim is busy with an earlier life.
    #[error("{0}")]
    Busy(String),
    /// What is to be prepared could not be recorded, so nothing was prepared.
    #[error("checkpoint ResourceClaim state: {0}")]
    Record(String),
    /// A driver failed.
    #[error("{0}")]
    Driver(String),
    /// The daemon is shutting down.
    #[error("the claims of pods are shut down")]
    Ended,
}

impl From<AttachError> for PrepareError {
    fn from(error: AttachError) -> Self {
        Self::Busy(error.to_string())
    }
}

/// Why a pod's claims are not all released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// A driver failed, or is not registered.
    #[error("unprepare dynamic resources: {0}")]
    Driver(String),
    /// What is done could not be recorded.
    #[error("checkpoint ResourceClaim state: {0}")]
    Record(String),
    /// The daemon is shutting down.
    #[error("the claims of pods are shut down")]
    Ended,
}
