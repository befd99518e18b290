//! What users and agents of this host are told of devices. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::allocation::Allocation;
use crate::device::{DeviceIds, NO_NODE};
use crate::inventory::ResourceState;
use crate::state::State;
use crate::view::{DeviceView, HeldDevices, HolderView, PluginPhase, ResourceView};

/// A container's devices, with the NUMA nodes that were recorded.
pub(crate) fn held(state: &State, uid: &PodUid, container: &str) -> Vec<HeldDevices> {
    let held = state.allocations.of_container(uid, container).into_iter().flatten();
    held.map(|(resource, allocation)| HeldDevices { resource: resource.clone(), devices: nodes(allocation) })
        .collect()
}

fn nodes(allocation: &Allocation) -> BTreeMap<String, BTreeSet<i64>> {
    let mut devices: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for (node, ids) in &allocation.devices {
        for id in ids {
            let nodes = devices.entry(id.clone()).or_default();
            if *node != NO_NODE {
                nodes.insert(*node);
            }
        }
    }
    devices
}

/// The healthy devices of all resources.
pub(crate) fn healthy(state: &State) -> Vec<HeldDevices> {
    let of = |resource: ResourceState<'_>| {
        let healthy = state.inventory.healthy(resource.name);
        let devices = resource.devices.iter().filter(|(id, _)| healthy.contains(*id));
        let devices = devices.map(|(id, device)| (id.clone(), device.nodes.clone())).collect();
        HeldDevices { resource: resource.name.to_owned(), devices }
    };
    state.inventory.states().map(of).collect()
}

/// All resources for users; `clock` and `now` are one moment.
pub(crate) fn views(state: &State, clock: Timestamp, now: Instant) -> Vec<ResourceView> {
    state.inventory.states().map(|resource| view(state, resource, clock, now)).collect()
}

fn view(state: &State, resource: ResourceState<'_>, clock: Timestamp, now: Instant) -> ResourceView {
    let ResourceState { name, devices, instances, is_listed, away } = resource;
    let allocated = state.allocations.in_use(name);
    let ids: DeviceIds = devices.keys().chain(&allocated).cloned().collect();
    let ago = |since: Instant| {
        let ago = SignedDuration::try_from(now.saturating_duration_since(since)).unwrap_or_default();
        clock.checked_sub(ago).unwrap_or(clock)
    };
    let device = |id: String| DeviceView {
        health: state.inventory.health(name, &id).name().to_owned(),
        numa_nodes: devices.get(&id).into_iter().flat_map(|device| &device.nodes).copied().collect(),
        holders: holders(state, name, &id),
        id,
    };
    ResourceView {
        resource: name.to_owned(),
        plugin: match (away, is_listed) {
            (Some(_), true | false) => PluginPhase::Away,
            (None, true) => PluginPhase::Registered,
            (None, false) => PluginPhase::Connected,
        },
        since: away.map(ago).or_else(|| instances.last().map(|instance| instance.since)),
        sockets: instances.iter().map(|instance| instance.socket.display().to_string()).collect(),
        capacity: devices.len(),
        allocatable: state.inventory.healthy(name).len(),
        awaited: state.inventory.awaited(name, now).map(|awaited| awaited.reason),
        devices: ids.into_iter().map(device).collect(),
    }
}

fn holders(state: &State, resource: &str, id: &str) -> Vec<HolderView> {
    let held = state.allocations.iter().filter(|(_, _, of, allocation)| {
        *of == resource && allocation.devices.values().flatten().any(|held| held == id)
    });
    let holder = held.map(|(uid, container, ..)| HolderView {
        uid: uid.to_string(),
        pod: None,
        container: container.to_owned(),
    });
    holder.collect()
}
