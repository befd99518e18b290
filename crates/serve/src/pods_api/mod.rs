//! The Pods API for agents of this host (`pods-api/pods-api.sock`, `v1alpha1.Pods`): the pods of this node with their statuses. Only reads.

mod encode;
#[cfg(test)]
mod encode_tests;
mod metrics;
mod server;
mod service;
#[cfg(test)]
mod service_tests;
mod watched;

pub use server::{PodsApiServer, PodsApiSettings};
pub use service::Readiness;
