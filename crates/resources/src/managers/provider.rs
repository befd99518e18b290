//! The seam between the choice of NUMA nodes and what is allocated on them.

use hostlet_pod::Rejection;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::cpus::Cpus;
use crate::memory::MemoryNodes;
use crate::topology::{Hint, ProviderHints};

/// Something that is allocated on NUMA nodes. A container's hints consider what containers of its pod before it were granted.
pub trait Provider {
    /// What to hint for a container.
    fn hints(&self, pod: &Pod, container: &Container) -> ProviderHints;

    /// What to hint for a pod as a whole.
    fn pod_hints(&self, pod: &Pod) -> ProviderHints;

    /// Grants a container what it needs, of these nodes if that is possible.
    fn allocate(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<(), Rejection>;

    /// Grants a pod with resources of its own, and all its containers, what they need.
    fn allocate_pod(&mut self, pod: &Pod, hint: Hint) -> Result<(), Rejection>;
}

/// The provider on a node without devices.
#[derive(Clone, Copy, Debug)]
pub struct NoDevices;

impl Provider for NoDevices {
    fn hints(&self, _: &Pod, _: &Container) -> ProviderHints {
        ProviderHints::new()
    }

    fn pod_hints(&self, _: &Pod) -> ProviderHints {
        ProviderHints::new()
    }

    fn allocate(&mut self, _: &Pod, _: &Container, _: Hint) -> Result<(), Rejection> {
        Ok(())
    }

    fn allocate_pod(&mut self, _: &Pod, _: Hint) -> Result<(), Rejection> {
        Ok(())
    }
}

impl Provider for Cpus {
    fn hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        self.hints(pod, container)
    }

    fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        self.pod_hints(pod)
    }

    fn allocate(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<(), Rejection> {
        self.allocate(pod, container, hint).map_err(|error| error.rejection())
    }

    fn allocate_pod(&mut self, pod: &Pod, hint: Hint) -> Result<(), Rejection> {
        self.allocate_pod(pod, hint).map_err(|error| error.rejection())
    }
}

impl Provider for MemoryNodes {
    fn hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        self.hints(pod, container)
    }

    fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        self.pod_hints(pod)
    }

    fn allocate(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<(), Rejection> {
        self.allocate(pod, container, hint).map_err(|error| error.rejection())
    }

    fn allocate_pod(&mut self, pod: &Pod, hint: Hint) -> Result<(), Rejection> {
        self.allocate_pod(pod, hint).map_err(|error| error.rejection())
    }
}
