//! Keeps the statuses on the API server true to what is told of this node's pods, and deletes the objects of pods that
//! are terminating and have ended (upstream's status manager). Never decides what a status says or whether a pod ends.

mod merge;
#[cfg(test)]
mod merge_tests;
mod plan;
mod task;
#[cfg(test)]
mod task_tests;

pub use task::{StatusManager, StatusSources};
