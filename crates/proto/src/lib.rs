//! Wire definitions that no well-kept crate has: the whole CRI and CSI, what the kubelet serves or calls on local sockets, and of other
//! interfaces what hostlet uses. No behaviour.

pub mod cri;
pub mod csi;
pub mod device_plugin;
pub mod dra;
pub mod dra_health;
pub mod dra_plugin;
pub mod listed;
pub mod pod_message;
pub mod pod_resources;
pub mod pod_resources_alpha;
pub mod pods_api;
pub mod registration;
