//! Upstream's status manager: writes reported statuses to the API server, and deletes the objects of terminating pods that
//! have terminated. Never decides the content of a status or whether a pod terminates.

mod merge;
#[cfg(test)]
mod merge_tests;
mod metrics;
mod plan;
mod task;
#[cfg(test)]
mod task_tests;

pub use task::{StatusManager, StatusManagerDeps};
