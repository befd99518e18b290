//! The work that a pod's lifecycle gives to its worker, and its outcome. Decides nothing.

use std::sync::Arc;

use hostlet_base::PodRef;
use hostlet_image::ImageError;
use hostlet_pod::{AdmittedPod, Rejection, StatusOverride};
use hostlet_runtime::cri::CriError;
use tokio::time::Instant;

use crate::gate::Urgency;

/// What becomes of a pod's dead containers, logs and directories once it is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// They stay: the pod is still desired, and its result may be read.
    Keep,
    /// They are removed: the pod was deleted, evicted, or is an orphan.
    Remove,
}

/// Work for the worker of a pod.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Make its containers match its spec.
    Sync(Arc<AdmittedPod>),
    /// Stop its containers.
    Terminate {
        pod: Arc<AdmittedPod>,
        /// Grace period, seconds.
        grace_seconds: i64,
        /// Its final status.
        status: Option<StatusOverride>,
        /// Whether it may wait at the stop gate; may be raised while it does.
        urgency: Urgency,
    },
    /// Release its resources.
    Finish {
        pod: Arc<AdmittedPod>,
        /// Its final status.
        status: Option<StatusOverride>,
        /// What becomes of its dead containers, logs and directories.
        content: Content,
    },
    /// Stop and remove a pod known only from the runtime.
    Reap {
        pod: PodRef,
        /// Grace period, seconds.
        grace_seconds: i64,
    },
}

impl Work {
    /// The pod with its spec; none for a pod known only from the runtime.
    pub(super) fn admitted(&self) -> Option<&Arc<AdmittedPod>> {
        match self {
            Self::Sync(pod) | Self::Terminate { pod, .. } | Self::Finish { pod, .. } => Some(pod),
            Self::Reap { .. } => None,
        }
    }

    /// The pod it is about.
    pub(crate) fn pod(&self) -> &PodRef {
        match self {
            Self::Sync(pod) | Self::Terminate { pod, .. } | Self::Finish { pod, .. } => &pod.reference,
            Self::Reap { pod, .. } => pod,
        }
    }
}

/// The outcome of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded.
    Done {
        /// When the next sync is due at the latest, e.g. at the end of a back-off.
        due: Option<Instant>,
    },
    /// A sync found that the pod has run to its end.
    PodEnded,
    /// The pod was active for longer than its `activeDeadlineSeconds`, whatever its containers do.
    DeadlineExceeded,
    /// The pod turned out not to fit on this node.
    Rejected(Rejection),
    Failed(Retry),
    /// It was cancelled: newer work waits.
    Cancelled,
}

/// When to retry failed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// In a second: the cause tends to pass, e.g. the network is not ready yet.
    Soon,
    /// After the ordinary back-off.
    BackOff,
    /// After the ordinary back-off, at this time at the latest.
    By(Instant),
}

impl Retry {
    /// After a failed call. An unreachable runtime is usually back in a moment.
    pub(super) fn after(error: &CriError) -> Self {
        match error {
            CriError::Unreachable { .. } => Self::Soon,
            CriError::TimedOut { .. }
            | CriError::NotFound { .. }
            | CriError::Unimplemented { .. }
            | CriError::Failed { .. }
            | CriError::TooLarge { .. }
            | CriError::Malformed { .. } => Self::BackOff,
        }
    }

    /// After an image was not available.
    pub(super) fn after_image(error: &ImageError) -> Self {
        match error {
            // Only the runtime was involved, no registry.
            ImageError::Inspect { .. } => Self::Soon,
            ImageError::InvalidName { .. }
            | ImageError::NeverPull { .. }
            | ImageError::Credentials { .. }
            | ImageError::Pull { .. }
            | ImageError::RegistryUnavailable { .. }
            | ImageError::SignatureValidation { .. }
            | ImageError::BackOff { .. } => Self::BackOff,
        }
    }
}
