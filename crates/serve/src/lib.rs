//! What others ask hostlet: the node's API, the control socket, the pod resources API, explanations, the service manager. Never stops or
//! starts a container.

pub mod explain;
mod grpc;
pub mod node_api;
pub mod pod_resources;
pub mod pods_api;
pub mod server;
pub mod supervisor;

#[cfg(test)]
hostlet_host::work_in_place!();
