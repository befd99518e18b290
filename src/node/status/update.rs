//! All setters in their order.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{DaemonEndpoint, NodeDaemonEndpoints, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::capacity::is_of_machine;
use super::ready::READY;
use super::{addresses, allocatable, capacity, conditions, images, info, ready, runtime};
use crate::node::{Facts, NodeEvent, Pressure, Settings};
use crate::sys::Machine;
use crate::types::ResourceList;

/// Brings `status` up to date, and says what is worth an event. Heartbeats of conditions that are there stay: see [`beat`].
pub(in crate::node) fn update(
    status: &mut NodeStatus,
    settings: &Settings,
    facts: &Facts,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let name = &settings.name;
    addresses::set(status, settings, &facts.host);
    set_resources(status, settings, &facts.host.machine);
    let mut events = Vec::new();
    events.extend(info::set(status, name, &facts.host.machine, facts.runtime.version.as_ref()));
    images::set(status, &facts.runtime.images, settings.node.max_images);
    runtime::set(status, facts.status.as_ref());
    status.daemon_endpoints = settings
        .server_port
        .map(|port| NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: port.into() }) });
    // The scheduler and the API server act on what a node declares, and the attach-detach controller on the volumes it says
    // are in use. What another kubelet left there is not true of this one.
    status.declared_features = None;
    status.volumes_in_use = None;
    events.extend(conditions::set_pressures(status, &facts.pressures, name, now));
    events.extend(ready::set(status, settings, &facts.unready, now));
    events
}

/// Capacity, and what of it pods can have. Resources that others advertise on the Node stay, and pods can have all of them.
fn set_resources(status: &mut NodeStatus, settings: &Settings, machine: &Machine) {
    let own = capacity(settings, machine);
    let mut others = status.capacity.take().unwrap_or_default();
    others.retain(|name, _| !is_of_machine(name));
    let beside = |own: &ResourceList| Some(others.clone().into_iter().chain(own.written()).collect());
    status.capacity = beside(&own);
    status.allocatable = beside(&allocatable(&own, &settings.node.reserved));
}

/// Marks our conditions as confirmed now, which is done when a status is sent.
pub(in crate::node) fn beat(status: &mut NodeStatus, now: Timestamp) {
    for condition in status.conditions.iter_mut().flatten() {
        if is_own(&condition.type_) {
            condition.last_heartbeat_time = Some(Time(now));
        }
    }
}

/// Whether a condition is ours to write.
fn is_own(condition: &str) -> bool {
    condition == READY || Pressure::ALL.iter().any(|pressure| pressure.condition() == condition)
}
