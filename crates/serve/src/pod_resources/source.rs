//! What the API tells of: the seam to those who grant devices, CPUs and memory.

use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_devices::{Devices, HeldDevices};
use hostlet_observe::status::{DirectoryEntry, LifecycleSummary, PodDirectory};
use k8s_openapi::api::core::v1::Pod;

/// What a container was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerResources {
    /// Devices of device plugins, by resource.
    pub devices: Vec<HeldDevices>,
    /// Exclusive CPUs.
    pub cpus: Vec<u32>,
    /// Memory of NUMA nodes.
    pub memory: Vec<MemoryBlock>,
    /// Devices of claims.
    pub claims: Vec<ClaimedDevices>,
}

/// Memory or huge pages of some NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    /// `memory`, or such as `hugepages-2Mi`.
    pub kind: String,
    /// Its size in bytes.
    pub size: u64,
    /// The NUMA nodes.
    pub nodes: Vec<u32>,
}

/// The devices of a ResourceClaim that a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDevices {
    /// The claim's name.
    pub name: String,
    /// The claim's namespace.
    pub namespace: String,
    /// Its devices.
    pub devices: Vec<ClaimedDevice>,
}

/// A device of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDevice {
    /// The driver's name.
    pub driver: String,
    /// The pool's name.
    pub pool: String,
    /// The device's name.
    pub device: String,
    /// Its CDI devices.
    pub cdi_devices: Vec<String>,
    /// The share of a device that several claims have.
    pub share: Option<String>,
}

/// What there is to be granted, whether it is or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatableResources {
    /// Healthy devices, by resource.
    pub devices: Vec<HeldDevices>,
    /// CPUs that are not reserved.
    pub cpus: Vec<u32>,
    /// Memory of NUMA nodes that is not reserved.
    pub memory: Vec<MemoryBlock>,
}

/// Knows the pods and what they were granted.
pub trait PodResourcesSource: Send + Sync + 'static {
    /// All pods of this node.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// Those that were admitted and have not terminated.
    fn active_pods(&self) -> Vec<Arc<Pod>>;

    /// The pod of this name.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>>;

    /// What a container of a pod was granted.
    fn container(&self, uid: &PodUid, container: &str) -> ContainerResources;

    /// What there is.
    fn allocatable(&self) -> AllocatableResources;
}

/// The pods and devices of this node.
pub struct NodeResourcesSource {
    /// The pods.
    pub pods: PodDirectory,
    /// The devices.
    pub devices: Devices,
}

impl PodResourcesSource for NodeResourcesSource {
    fn pods(&self) -> Vec<Arc<Pod>> {
        self.pods.sorted().iter().map(|entry| entry.object().clone()).collect()
    }

    fn active_pods(&self) -> Vec<Arc<Pod>> {
        let sorted = self.pods.sorted().into_iter();
        sorted.filter(is_active).map(|entry| entry.object().clone()).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        Some(self.pods.find(namespace, name)?.object().clone())
    }

    fn container(&self, uid: &PodUid, container: &str) -> ContainerResources {
        ContainerResources { devices: self.devices.held(uid, container), ..ContainerResources::default() }
    }

    fn allocatable(&self) -> AllocatableResources {
        AllocatableResources { devices: self.devices.healthy(), ..AllocatableResources::default() }
    }
}

fn is_active(entry: &DirectoryEntry) -> bool {
    match entry.lifecycle() {
        LifecycleSummary::Active | LifecycleSummary::Terminating => true,
        LifecycleSummary::Terminated => false,
    }
}
