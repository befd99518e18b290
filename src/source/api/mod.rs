//! The pods that the API server has assigned to this node, kept true by a watch.

mod pods;
#[cfg(test)]
mod pods_tests;
mod resize;
mod task;
#[cfg(test)]
mod task_tests;

pub use pods::{ApiPod, ApiState, Mirror};
pub use task::run;
