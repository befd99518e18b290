//! The vocabulary of pods: identity, the meaning of fields, defaults and validation of the API server, resources, and the
//! values that several crates share. Pure: never does I/O, and never decides whether a pod runs.

mod admitted;
mod api_state;
mod api_time;
mod container;
pub mod defaults;
mod desired;
mod events;
mod external_volumes;
mod failing_probes;
mod identity;
mod kill;
mod manifest_problem;
pub mod migration;
mod mounts;
mod node_selector;
pub mod objects;
mod phase;
mod probes;
mod rejection;
mod resize;
pub mod resources;
mod restart_policy;
mod status_override;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;
pub mod validation;
pub mod view;
mod waiting_reason;

pub use admitted::{AdmissionId, AdmittedPod};
pub use api_state::{ApiPod, ApiState, Mirror};
pub use api_time::whole_seconds;
pub use container::{ContainerKind, ContainerRef, PodContainer};
pub use desired::DesiredPods;
pub use events::PodEvents;
pub use external_volumes::{DriverVolume, ExternalVolume, ExternalVolumes};
pub use failing_probes::{FailingProbe, FailingProbes};
pub use identity::{Rank, is_critical, is_static, pod_ref, pod_uid, seen_at};
pub use kill::{PodKill, patience};
pub use manifest_problem::{ManifestOrigin, ManifestProblem};
pub use mounts::{absolute_mount_path, recursive_read_only};
pub use node_selector::matches_node_selector;
pub use phase::{PodPhase, has_ended};
pub use probes::{ContainerProbes, PodProbes, ProbeKind, ProbeResults};
pub use rejection::{RejectedPod, Rejection};
pub use resize::{
    PendingResize, PendingResizeReason, ResizeState, priority_bucket, resize_message, with_allocation,
};
pub use restart_policy::{RestartPolicy, demands_restart_of_all, may_restart_all, restarts_after};
pub use status_override::StatusOverride;
pub use waiting_reason::WaitingReason;

#[cfg(test)]
hostlet_host::work_in_place!();
