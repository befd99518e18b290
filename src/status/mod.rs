//! The status of a pod as the API shows it, from what was observed, and as a person reads it in a table. Pure; never
//! decides what happens to the pod.

mod activity;
mod age;
mod cache;
mod conditions;
mod containers;
mod generate;
mod input;
mod newest;
mod phase;
mod restart;
mod summary;
#[cfg(test)]
mod testing;
pub mod timeline;

pub use activity::{Activity, Doing};
pub use age::human_duration;
pub use cache::{PodStatusEntry, StatusCache};
pub use conditions::{DISRUPTION_TARGET, RESIZE_PENDING, TERMINATION_BY_KUBELET, is_owned_condition};
pub use containers::whole_seconds;
pub use generate::generate;
pub use input::{LifecycleSummary, StatusInput};
pub use newest::newest;
pub use summary::{PodSummary, summary};
