//! The API server as a source of pods: those bound to this node, kept current by a watch. Decides nothing about them.

mod pods;
#[cfg(test)]
mod pods_tests;
mod task;
#[cfg(test)]
mod task_tests;

pub use task::run;
