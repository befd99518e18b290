//! The API server as a source: the pods bound to this node, kept current by a watch.

mod pods;
#[cfg(test)]
mod pods_tests;
mod task;
#[cfg(test)]
mod task_tests;

pub use pods::{ApiPod, ApiState, Mirror};
pub use task::run;
