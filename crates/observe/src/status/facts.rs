//! Small facts about a pod that its worker publishes and its status shows, in addition to its spec and its observed state.
//! Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hostlet_base::ContainerId;
use hostlet_pod::resources::Actuated;
use hostlet_pod::{StatusOverride, WaitingReason};
use hostlet_runtime::cri::{ContainerStatus, SandboxStatus};
use k8s_openapi::api::core::v1::ResourceStatus;

use super::{ImagePull, LifecycleSummary};
use crate::pleg::PodStatus;

/// The progress of the work on a pod.
#[derive(Clone, Debug, Default)]
pub enum PodProgress {
    /// Its containers may be started.
    #[default]
    Active,
    /// It is being stopped, with this final status.
    Terminating(Option<StatusOverride>),
    /// It is stopped.
    Terminated {
        /// Its final status.
        status: Option<StatusOverride>,
        /// The pod as observed when nothing of it ran: later removals do not change its status.
        observed: Arc<PodStatus>,
    },
}

impl PodProgress {
    /// The phase of its lifecycle.
    pub fn lifecycle(&self) -> LifecycleSummary {
        match self {
            Self::Active => LifecycleSummary::Active,
            Self::Terminating(_) => LifecycleSummary::Terminating,
            Self::Terminated { .. } => LifecycleSummary::Terminated,
        }
    }

    /// The final status.
    pub fn status_override(&self) -> Option<&StatusOverride> {
        match self {
            Self::Active => None,
            Self::Terminating(status) | Self::Terminated { status, .. } => status.as_ref(),
        }
    }
}

/// The facts of one pod.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// The progress of the work on it.
    pub progress: PodProgress,
    /// Waiting reasons of containers that should run, by name.
    pub waiting: BTreeMap<String, WaitingReason>,
    /// Names of the containers that are being started.
    pub starting: BTreeSet<String>,
    /// Why the last step could not set up what its containers need: its volumes or its sandbox.
    pub setup_error: Option<String>,
    /// By the container that waits for it: an image that is being pulled.
    pub pulling: BTreeMap<String, ImagePull>,
    /// The sandbox that was just created, which the next relist will list.
    pub made_sandbox: Option<SandboxStatus>,
    /// Started containers whose postStart hook has not succeeded yet: they do not count as started.
    pub post_starting: BTreeSet<ContainerId>,
    /// Containers whose start was requested, and the response lost (see [`with_actual_outcomes`](super::with_actual_outcomes)).
    pub lost_starts: BTreeSet<ContainerId>,
    /// Finished containers that do not run again, and that the runtime no longer has.
    pub removed: Vec<ContainerStatus>,
    /// What is enforced of its resources while a resize is under way.
    pub actuated: Option<Arc<Actuated>>,
    /// How many allocated resizes the worker has taken up.
    pub allocations: u32,
    /// The health of devices that its containers use, by container.
    pub device_health: BTreeMap<String, Vec<ResourceStatus>>,
    /// Whether its runtime handler supports recursive read-only mounts.
    pub recursive_read_only: bool,
    /// It has terminated and released its resources on the host.
    pub has_released: bool,
}
