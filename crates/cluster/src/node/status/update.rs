//! Calls all setters in order.

use hostlet_base::node::{NodeEvent, PluginResources, Pressure};
use hostlet_base::{Quantity, ResourceList};
use hostlet_host::Machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{DaemonEndpoint, NodeDaemonEndpoints, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::capacity::is_of_machine;
use super::ready::READY;
use super::{addresses, allocatable, capacity, conditions, images, info, kernel, ready, runtime};
use crate::node::{KernelConditions, NodeFacts, NodeSettings};

/// Features without which the scheduler gives a pod that uses them to no node (KEP-5328), sorted.
const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// Brings `status` up to date and returns the events of its changes. Heartbeats of existing conditions stay: see
/// [`set_heartbeats`].
pub(in crate::node) fn update(
    status: &mut NodeStatus,
    settings: &NodeSettings,
    facts: &NodeFacts,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let name = &settings.name;
    addresses::set(status, settings, &facts.host);
    set_resources(status, settings, &facts.host.machine, &facts.devices);
    let mut events = Vec::new();
    events.extend(info::set(status, name, &facts.host.machine, facts.runtime.version.as_ref()));
    images::set(status, &facts.runtime.images, settings.node.max_images);
    runtime::set(status, facts.status.as_ref());
    // Without a port it is 0, as upstream's: the API server shows that in any case, and a status without it would differ for ever.
    let port = settings.server_port.unwrap_or_default().into();
    status.daemon_endpoints = Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port }) });
    // The scheduler and the API server act on declared features. What another kubelet left there does not apply to this one.
    status.declared_features = Some(DECLARED_FEATURES.map(str::to_owned).to_vec());
    status.volumes_in_use = Some(facts.volumes_in_use.clone()).filter(|volumes| !volumes.is_empty());
    events.extend(conditions::set_pressures(status, &facts.pressures, name, now));
    kernel::set(status, &facts.kernel, now);
    events.extend(ready::set(status, settings, &facts.unready, now));
    events
}

/// Sets capacity and allocatable. Resources that others advertise on the Node stay, and are fully allocatable. A resource whose device plugin
/// is gone for good stays with nothing of it, as upstream: that tells it from one that others advertise.
fn set_resources(
    status: &mut NodeStatus,
    settings: &NodeSettings,
    machine: &Machine,
    devices: &PluginResources,
) {
    let own = capacity(settings, machine);
    let mut others = status.capacity.take().unwrap_or_default();
    others.retain(|name, _| !is_of_machine(name));
    let none = devices.removed.iter().map(|name| (name.as_str(), Quantity::count(0)));
    let none: ResourceList = none.collect();
    let whole = |own: &ResourceList, of_plugins: &ResourceList| {
        let own = own.written().into_iter().chain(none.written()).chain(of_plugins.written());
        Some(others.clone().into_iter().chain(own).collect())
    };
    status.capacity = whole(&own, &devices.capacity);
    status.allocatable = whole(&allocatable(&own, &settings.node.reserved), &devices.allocatable);
}

/// Sets the heartbeat of this kubelet's conditions, just before a status is sent.
pub(in crate::node) fn set_heartbeats(status: &mut NodeStatus, kernel: &KernelConditions, now: Timestamp) {
    for condition in status.conditions.iter_mut().flatten() {
        if is_own(&condition.type_) || kernel::is_reported(kernel, &condition.type_) {
            condition.last_heartbeat_time = Some(Time(now));
        }
    }
}

/// Whether a condition is one that every kubelet owns.
fn is_own(condition: &str) -> bool {
    condition == READY || Pressure::ALL.iter().any(|pressure| pressure.condition() == condition)
}
