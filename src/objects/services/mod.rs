//! Environment variables for the cluster's Services.

mod known;
mod task;
#[cfg(test)]
mod task_tests;

pub use known::{KnownServices, ServiceVariables};
pub use task::{ServiceEnv, ServicesTask};
