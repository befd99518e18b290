//! The work that a pod's lifecycle gives to its worker, and how it ended. Decides nothing.

use std::sync::Arc;

use tokio::time::Instant;

use crate::cri::CriError;
use crate::gate::Urgency;
use crate::pod::{AdmittedPod, StatusOverride};
use crate::types::PodRef;

/// What becomes of a pod's dead containers, logs and directories once it is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// They stay: the pod is still wanted, and its result is worth reading.
    Keep,
    /// They go: the pod was deleted, evicted, or nobody knows it.
    Remove,
}

/// Work for the worker of a pod.
#[derive(Clone, Debug)]
pub enum Work {
    /// Make its containers match its spec.
    Sync(Arc<AdmittedPod>),
    /// Stop its containers.
    Terminate {
        /// The pod.
        pod: Arc<AdmittedPod>,
        /// Seconds they may take.
        grace_seconds: i64,
        /// Status to end with.
        status: Option<StatusOverride>,
        /// Whether it waits for the ends of other pods; may be raised while it does.
        urgency: Urgency,
    },
    /// Release its resources.
    Finish {
        /// The pod.
        pod: Arc<AdmittedPod>,
        /// Status to end with.
        status: Option<StatusOverride>,
        /// What becomes of its dead containers, logs and directories.
        content: Content,
    },
    /// Stop and remove everything of a pod known from the runtime only.
    Reap {
        /// The pod.
        pod: PodRef,
        /// Seconds its containers may take.
        grace_seconds: i64,
    },
}

impl Work {
    /// The pod it is about.
    pub fn pod(&self) -> &PodRef {
        match self {
            Self::Sync(pod) | Self::Terminate { pod, .. } | Self::Finish { pod, .. } => &pod.reference,
            Self::Reap { pod, .. } => pod,
        }
    }
}

/// How work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded. For a sync: look again at this moment at the latest, if one is given.
    Done {
        /// When something is due, e.g. the end of a back-off.
        due: Option<Instant>,
    },
    /// A sync found that the pod has run to its end.
    PodEnded,
    /// It failed.
    Failed(Retry),
    /// It was cancelled: newer work waits.
    Cancelled,
}

/// When to try failed work again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// In a second: the cause tends to pass, e.g. the network is not ready yet.
    Soon,
    /// After the ordinary back-off.
    BackOff,
}

impl Retry {
    /// After a call that failed. A runtime that went away is back in a moment: what it was asked waits no longer.
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
}
