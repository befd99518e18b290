//! The environment variables that tell containers of the cluster's services.

mod known;
mod task;
#[cfg(test)]
mod task_tests;

pub use known::{KnownServices, ServiceVariables};
pub use task::{ServiceEnv, ServicesTask};
