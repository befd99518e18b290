//! Everything that talks to the API server: its client, the Node, the pods and objects of the cluster, statuses, ResourceSlices. Never
//! decides about a pod.

pub mod api;
pub mod api_objects;
pub mod api_pods;
pub mod csi;
pub mod node;
pub mod publish;
pub mod resource_slices;

#[cfg(test)]
hostlet_host::work_in_place!();
