//! What others ask hostlet: the node's API, the control socket, explanations, the service manager. Never stops or starts a
//! container.

pub mod explain;
pub mod node_api;
pub mod server;
pub mod supervisor;

#[cfg(test)]
hostlet_host::work_in_place!();
