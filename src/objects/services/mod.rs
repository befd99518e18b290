//! Environment variables for the cluster's Services.

mod env;
#[cfg(test)]
mod env_tests;
mod known;

pub use env::ServiceEnv;
pub use known::{KnownServices, ServiceVariables};
