//! Which containers have which devices. Pure; does not decide who gets one.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;
use hostlet_pod::ContainerKind;
use hostlet_proto::device_plugin::ContainerAllocateResponse;

use crate::device::DeviceIds;
use crate::requests::PodRequests;

/// A container's devices of one resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allocation {
    /// The devices by NUMA node, as upstream records them; one of several nodes is in each of them.
    pub(crate) devices: BTreeMap<i64, Vec<String>>,
    /// What the container is given for them.
    pub(crate) response: ContainerAllocateResponse,
}

impl Allocation {
    pub(crate) fn ids(&self) -> DeviceIds {
        self.devices.values().flatten().cloned().collect()
    }
}

/// The devices of a container, by resource.
pub(crate) type ContainerAllocations = BTreeMap<String, Allocation>;

/// The devices of all pods, by UID and name of the container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Allocations(BTreeMap<PodUid, BTreeMap<String, ContainerAllocations>>);

impl Allocations {
    pub(crate) fn insert(&mut self, uid: &PodUid, container: &str, resource: &str, allocation: Allocation) {
        let pod = self.0.entry(uid.clone()).or_default();
        pod.entry(container.to_owned()).or_default().insert(resource.to_owned(), allocation);
    }

    /// Adds what another record says. Where both say something, the other one counts.
    pub(crate) fn extend(&mut self, other: Self) {
        for (uid, container, resource, allocation) in other.iter() {
            self.insert(uid, container, resource, allocation.clone());
        }
    }

    /// Takes back one container's devices of a resource.
    pub(crate) fn remove(&mut self, uid: &PodUid, container: &str, resource: &str) {
        let Some(pod) = self.0.get_mut(uid) else { return };
        if let Some(of_container) = pod.get_mut(container) {
            of_container.remove(resource);
        }
        pod.retain(|_, of_container| !of_container.is_empty());
        self.0.retain(|_, pod| !pod.is_empty());
    }

    /// Takes back the devices of all other pods. Returns whether there were any.
    pub(crate) fn retain(&mut self, pods: &BTreeSet<PodUid>) -> bool {
        let before = self.0.len();
        self.0.retain(|uid, _| pods.contains(uid));
        self.0.len() != before
    }

    /// Everything, in the order of pods, containers and resources.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PodUid, &str, &str, &Allocation)> {
        self.0.iter().flat_map(|(uid, pod)| {
            pod.iter().flat_map(move |(container, resources)| {
                resources.iter().map(move |(resource, allocation)| {
                    (uid, container.as_str(), resource.as_str(), allocation)
                })
            })
        })
    }

    pub(crate) fn of_container(&self, uid: &PodUid, container: &str) -> Option<&ContainerAllocations> {
        self.0.get(uid)?.get(container)
    }

    pub(crate) fn of(&self, uid: &PodUid, container: &str, resource: &str) -> Option<&Allocation> {
        self.of_container(uid, container)?.get(resource)
    }

    /// The pod's devices of a resource.
    pub(crate) fn of_pod(&self, uid: &PodUid, resource: &str) -> DeviceIds {
        let containers = self.0.get(uid).into_iter().flat_map(BTreeMap::values);
        containers.filter_map(|resources| resources.get(resource)).flat_map(Allocation::ids).collect()
    }

    /// The pods that have one of these devices.
    pub(crate) fn holders(&self, resource: &str, ids: &DeviceIds) -> BTreeSet<PodUid> {
        let held = self.iter().filter(|(_, _, of, allocation)| {
            *of == resource && allocation.devices.values().flatten().any(|id| ids.contains(id))
        });
        held.map(|(uid, ..)| uid.clone()).collect()
    }

    /// All devices of a resource that somebody has.
    pub(crate) fn in_use(&self, resource: &str) -> DeviceIds {
        let of_resource = self.iter().filter(|(_, _, of, _)| *of == resource);
        of_resource.flat_map(|(_, _, _, allocation)| allocation.ids()).collect()
    }

    /// The resources of which somebody has devices.
    pub(crate) fn resources(&self) -> BTreeSet<String> {
        self.iter().map(|(_, _, resource, _)| resource.to_owned()).collect()
    }

    /// The devices of a resource that a container may share with others of its pod: those of init containers before it, which have
    /// ended when it starts, unless a sidecar or a main container has them (upstream `devicesToReuse`).
    pub(crate) fn reusable(&self, pod: &PodRequests, container: &str, resource: &str) -> DeviceIds {
        let mut reusable = DeviceIds::new();
        let before = pod.containers.iter().take_while(|other| other.name != container);
        for other in before.filter(|other| other.kind == ContainerKind::Init) {
            reusable.extend(self.of(&pod.uid, &other.name, resource).into_iter().flat_map(Allocation::ids));
        }
        let others = pod.containers.iter().filter(|other| other.kind != ContainerKind::Init);
        for allocation in others.filter_map(|other| self.of(&pod.uid, &other.name, resource)) {
            let held = allocation.ids();
            reusable.retain(|id| !held.contains(id));
        }
        reusable
    }
}
