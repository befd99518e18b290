//! The status of a pod as the API shows it, from what was observed, and as a person reads it in a table. Pure; never
//! decides what happens to the pod.

mod age;
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

pub use age::human_duration;
pub use conditions::{DISRUPTION_TARGET, RESIZE_PENDING, TERMINATION_BY_KUBELET};
pub use containers::whole_seconds;
pub use generate::generate;
pub use input::{Lifecycle, StatusInput};
pub use newest::newest;
pub use phase::Phase;
pub use summary::{PodSummary, summary};
