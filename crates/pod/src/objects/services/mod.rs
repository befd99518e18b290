//! Environment variables for the cluster's Services.

mod env;
mod known;

pub use env::ServiceEnv;
pub use known::{KnownService, KnownServices, ServiceVariables};
