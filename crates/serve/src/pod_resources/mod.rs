//! The pod resources API for monitoring agents of this host: which devices, CPUs and memory containers have (`pod-resources/kubelet.sock`).
//! Only reads.

mod metrics;
mod server;
mod service;
mod service_alpha;
#[cfg(test)]
mod service_tests;
mod source;
mod wire;

pub use server::{PodResourcesServer, PodResourcesSettings};
pub use source::{
    AllocatableResources, ClaimedDevice, ClaimedDevices, ContainerResources, MemoryBlock,
    NodeResourcesSource, PodResourcesSource,
};
