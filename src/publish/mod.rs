//! What the API server is told of this node's pods: their statuses, and mirrors of static pods. Never changes a pod.

pub mod mirror;
pub mod status;
