//! What the API tells of: the seam to those who grant devices, CPUs and memory.

use std::sync::Arc;

use hostlet_devices::{Devices, HeldDevices};
use hostlet_dra::{Claims, Device};
use hostlet_engine::grants::NumaGrants;
use hostlet_observe::status::{DirectoryEntry, LifecycleSummary, PodDirectory};
use hostlet_pod::pod_uid;
use hostlet_pod::view::PodView;
use hostlet_resources::Block;
use k8s_openapi::api::core::v1::{Container, Pod};

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
    fn container(&self, pod: &Pod, container: &Container) -> ContainerResources;

    /// What there is.
    fn allocatable(&self) -> AllocatableResources;
}

/// The pods and devices of this node.
pub struct NodeResourcesSource {
    /// The pods.
    pub pods: PodDirectory,
    /// The devices.
    pub devices: Devices,
    /// CPUs and memory of NUMA nodes.
    pub numa: NumaGrants,
    /// The claims.
    pub claims: Claims,
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

    fn container(&self, pod: &Pod, container: &Container) -> ContainerResources {
        let (uid, name) = (&pod_uid(pod), &container.name);
        let namespace = PodView::from(pod).namespace;
        let claims = self.claims.used(pod, container).into_iter().map(|(name, devices)| ClaimedDevices {
            name,
            namespace: namespace.to_owned(),
            devices: devices.into_iter().map(ClaimedDevice::from).collect(),
        });
        ContainerResources {
            devices: self.devices.held(uid, name),
            cpus: self.numa.exclusive_cpus(uid, name),
            memory: self.numa.memory(uid, name).into_iter().map(MemoryBlock::from).collect(),
            claims: claims.collect(),
        }
    }

    fn allocatable(&self) -> AllocatableResources {
        AllocatableResources {
            devices: self.devices.healthy(),
            cpus: self.numa.allocatable_cpus(),
            memory: self.numa.allocatable_memory().into_iter().map(MemoryBlock::from).collect(),
        }
    }
}

impl From<Block> for MemoryBlock {
    fn from(block: Block) -> Self {
        Self { kind: block.resource, size: block.size, nodes: block.numa_affinity }
    }
}

impl From<(String, Device)> for ClaimedDevice {
    fn from((driver, device): (String, Device)) -> Self {
        Self {
            driver,
            pool: device.pool_name,
            device: device.device_name,
            cdi_devices: device.cdi_device_ids,
            share: device.share_id,
        }
    }
}

fn is_active(entry: &DirectoryEntry) -> bool {
    match entry.lifecycle() {
        LifecycleSummary::Active | LifecycleSummary::Terminating => true,
        LifecycleSummary::Terminated => false,
    }
}
