//! What a plan depends on. Decides nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use crate::worker::crash_loop::CrashLoops;
use hostlet_base::{ContainerId, SandboxId};
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::resources::Actuated;
use hostlet_pod::{AdmittedPod, PodProbes};
use hostlet_runtime::cri::ContainerStatus;

/// What a plan depends on.
#[derive(Clone, Copy)]
pub(in crate::worker) struct PlanInput<'a> {
    /// The pod as desired.
    pub(in crate::worker) pod: &'a AdmittedPod,
    pub(in crate::worker) observed: &'a PodStatus,
    /// The restart back-offs of its containers.
    pub(in crate::worker) crash_loops: &'a CrashLoops,
    /// The containers that a user wants replaced by new instances.
    pub(in crate::worker) restarts: &'a BTreeSet<ContainerId>,
    /// What its probes have found.
    pub(in crate::worker) probes: &'a PodProbes,
    /// What was last enforced of its resources.
    pub(in crate::worker) actuated: &'a Actuated,
    /// Computes the hash of a container of the spec.
    pub(in crate::worker) hash: fn(&Container) -> u32,
    /// The time of a clock that nobody sets.
    pub(in crate::worker) now: Timestamp,
}

/// Whether an instance is in this sandbox.
pub(super) fn is_in(status: &ContainerStatus, sandbox: &SandboxId) -> bool {
    status.sandbox.as_ref().is_none_or(|id| id == sandbox)
}
