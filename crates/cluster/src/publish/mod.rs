//! Publishes what happens on this node to the API server: statuses, and mirror pods of static pods. Never changes a pod.

pub mod mirror;
pub mod status;
