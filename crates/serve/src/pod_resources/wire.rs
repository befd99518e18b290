//! Converts to the messages of the API. Pure.

use hostlet_devices::HeldDevices;
use hostlet_pod::ContainerKind;
use hostlet_pod::view::PodView;
use hostlet_proto::{pod_resources as v1, pod_resources_alpha as alpha};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::source::{
    AllocatableResources, ClaimedDevice, ClaimedDevices, ContainerResources, MemoryBlock, PodResourcesSource,
};

/// A pod with its sidecars and main containers.
pub(super) fn pod(pod: &Pod, source: &dyn PodResourcesSource) -> v1::PodResources {
    let view = PodView::from(pod);
    let sidecars = view.init_containers().iter();
    let sidecars = sidecars.filter(|init| ContainerKind::of_init(init) == ContainerKind::Sidecar);
    let containers = sidecars.chain(&view.spec.containers);
    let containers = containers.map(|of| container(&of.name, source.container(pod, of)));
    v1::PodResources {
        name: view.name.to_owned(),
        namespace: view.namespace.to_owned(),
        containers: containers.collect(),
        // Of the pod as a whole only with a feature that is off by default.
        cpu_ids: Vec::new(),
        memory: Vec::new(),
    }
}

fn container(name: &str, granted: ContainerResources) -> v1::ContainerResources {
    let ContainerResources { devices: held, cpus, memory, claims } = granted;
    v1::ContainerResources {
        name: name.to_owned(),
        devices: devices(&held),
        cpu_ids: cpus.into_iter().map(i64::from).collect(),
        memory: memory.into_iter().map(block).collect(),
        dynamic_resources: claims.into_iter().map(claim).collect(),
    }
}

/// What there is.
pub(super) fn allocatable(resources: AllocatableResources) -> v1::AllocatableResourcesResponse {
    v1::AllocatableResourcesResponse {
        devices: devices(&resources.devices),
        cpu_ids: resources.cpus.into_iter().map(i64::from).collect(),
        memory: resources.memory.into_iter().map(block).collect(),
    }
}

/// An entry for each device and each of its NUMA nodes, as upstream.
fn devices(held: &[HeldDevices]) -> Vec<v1::ContainerDevices> {
    let mut entries = Vec::new();
    for HeldDevices { resource, devices } in held {
        for (id, nodes) in devices {
            let entry = |topology| v1::ContainerDevices {
                resource_name: resource.clone(),
                device_ids: vec![id.clone()],
                topology,
            };
            entries.extend(nodes.iter().map(|node| entry(Some(topology([*node])))));
            if nodes.is_empty() {
                entries.push(entry(None));
            }
        }
    }
    entries
}

fn block(block: MemoryBlock) -> v1::ContainerMemory {
    let topology = topology(block.nodes.into_iter().map(i64::from));
    v1::ContainerMemory { memory_type: block.kind, size: block.size, topology: Some(topology) }
}

fn topology(nodes: impl IntoIterator<Item = i64>) -> v1::TopologyInfo {
    v1::TopologyInfo { nodes: nodes.into_iter().map(|id| v1::NumaNode { id }).collect() }
}

fn claim(claim: ClaimedDevices) -> v1::DynamicResource {
    let resource = |device: ClaimedDevice| v1::ClaimResource {
        cdi_devices: device.cdi_devices.into_iter().map(|name| v1::CdiDevice { name }).collect(),
        driver_name: device.driver,
        pool_name: device.pool,
        device_name: device.device,
        share_id: device.share,
    };
    v1::DynamicResource {
        claim_name: claim.name,
        claim_namespace: claim.namespace,
        claim_resources: claim.devices.into_iter().map(resource).collect(),
    }
}

/// A pod of the old version, which knows devices of main containers only.
pub(super) fn old_pod(pod: &Pod, source: &dyn PodResourcesSource) -> alpha::PodResources {
    let view = PodView::from(pod);
    let container = |of: &Container| alpha::ContainerResources {
        name: of.name.clone(),
        devices: devices(&source.container(pod, of).devices)
            .into_iter()
            .map(|entry| alpha::ContainerDevices {
                resource_name: entry.resource_name,
                device_ids: entry.device_ids,
            })
            .collect(),
    };
    alpha::PodResources {
        name: view.name.to_owned(),
        namespace: view.namespace.to_owned(),
        containers: view.spec.containers.iter().map(container).collect(),
    }
}
