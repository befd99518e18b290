//! Publishes what happens on this node: statuses, and mirror pods of static pods, to the API server; recent events, to users of this
//! host. Never changes a pod.

pub mod mirror;
pub mod recent;
pub mod status;
