//! What is known of a pod beside its spec and what the runtime has of it: small facts that its worker leaves, and that show
//! in its status. Nothing is decided by them here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LifecycleSummary;
use crate::cri::SandboxStatus;
use crate::pleg::PodStatus;
use crate::pod::{StatusOverride, WaitingReason};
use crate::types::ContainerId;

/// How far the work on a pod has come.
#[derive(Clone, Debug, Default)]
pub enum PodProgress {
    /// Its containers may be started.
    #[default]
    Active,
    /// It is being stopped, to end with this status.
    Terminating(Option<StatusOverride>),
    /// It is stopped.
    Terminated {
        /// Status to end with.
        status: Option<StatusOverride>,
        /// The pod as it was once nothing of it ran: what is removed of it from here on does not change its status.
        observed: Arc<PodStatus>,
    },
}

impl PodProgress {
    /// How far its life has come.
    pub fn lifecycle(&self) -> LifecycleSummary {
        match self {
            Self::Active => LifecycleSummary::Active,
            Self::Terminating(_) => LifecycleSummary::Terminating,
            Self::Terminated { .. } => LifecycleSummary::Terminated,
        }
    }

    /// The status to end with.
    pub fn status_override(&self) -> Option<&StatusOverride> {
        match self {
            Self::Active => None,
            Self::Terminating(status) | Self::Terminated { status, .. } => status.as_ref(),
        }
    }
}

/// The facts of one pod, from the first work on it to its end.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// How far the work on it has come.
    pub progress: PodProgress,
    /// Why containers wait that should run, by name.
    pub waiting: BTreeMap<String, WaitingReason>,
    /// The containers that the present step starts, by name.
    pub starting: BTreeSet<String>,
    /// Why its sandbox could not be made, while one is needed.
    pub sandbox_error: Option<String>,
    /// The sandbox that was just made, which the next look at the runtime will find.
    pub made_sandbox: Option<SandboxStatus>,
    /// Containers whose start was asked for and whose answer was lost (see [`as_it_was`](super::as_it_was)).
    pub lost_starts: BTreeSet<ContainerId>,
    /// It has ended and released its resources on the host.
    pub has_released: bool,
}
