//! Rotation of the logs of running containers, by the stock kubelet's rules: a log of `containerLogMaxSize` is renamed and a new one
//! opened by the runtime, older files are compressed, and of all files `containerLogMaxFiles` remain.

mod error;
mod files;
#[cfg(test)]
mod history_tests;
mod metrics;
mod plan;
mod task;
#[cfg(test)]
mod tests;

pub(crate) use task::{LogRotation, LogRotationDeps};
