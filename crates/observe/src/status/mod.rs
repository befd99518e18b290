//! The status of a pod as the API shows it, computed from what is desired, what was observed and small facts whenever one of
//! them changes, and its summary in a table; timelines and recent events. Never decides what happens to the pod.

mod activities;
mod activity;
mod cache;
mod conditions;
mod containers;
mod cut_short;
mod directory;
mod facts;
mod finished;
mod generate;
mod handle;
mod input;
mod metrics;
mod newest;
mod phase;
mod pod_state;
mod publish_progress;
mod recent_events;
mod restart;
mod starts;
mod step_times;
mod summary;
mod task;
mod terminations;
#[cfg(test)]
mod testing;
pub mod timeline;

pub use activities::PodActivities;
pub use activity::{Activity, ContainerKill, ImageOwner, ImagePull, WorkerActivity};
pub use cache::{PodStatusEntry, StatusCache};
pub use conditions::{
    DISRUPTION_TARGET, READY_TO_START, RESIZE_PENDING, TERMINATION_BY_KUBELET, cause_in, is_default_reason,
    is_owned_condition,
};
pub use cut_short::{is_unclear, with_actual_outcomes};
pub use directory::{DirectoryChanges, DirectoryEntry, PodDirectory};
pub use facts::{PodFacts, PodProgress};
pub use handle::StatusHandle;
pub use input::{LifecycleSummary, StatusGates};
pub use metrics::{register_resizes, register_waiting};
pub use publish_progress::PublishProgress;
pub use recent_events::{RecentEvent, RecentEvents};
pub use summary::{PodSummary, summary};
pub use task::{PodStatusDeps, PodStatusTask};
