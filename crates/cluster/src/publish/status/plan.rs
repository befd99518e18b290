//! What to write for one pod, and how soon. Pure.

use hostlet_base::json::to_value;
use hostlet_observe::status::{
    LifecycleSummary, READY_TO_START, RESIZE_PENDING, cause_in, is_default_reason,
};
use hostlet_pod::{has_ended, may_restart_all, restarts_after};
use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStatus, PodCondition, PodSpec, PodStatus,
};
use serde_json::{Value, json};

use super::merge::{merged, runs_again};
use crate::api::patch::{self, Kind};

/// A pod as reported on this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedPod<'a> {
    pub(super) status: &'a PodStatus,
    pub(super) lifecycle: LifecycleSummary,
    /// It has released all resources of the host.
    pub(super) has_released: bool,
}

/// The pod's object on the API server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live<'a> {
    pub(super) uid: &'a str,
    pub(super) status: &'a PodStatus,
    /// It is marked for deletion.
    pub(super) is_deleting: bool,
    /// It is a mirror pod.
    pub(super) is_mirror: bool,
    /// Its spec, with the restart policies.
    pub(super) spec: Option<&'a PodSpec>,
}

/// How soon a write is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Others depend on it: phase, readiness, termination, resizes.
    Now,
    /// The pod's first status, of a pod that does not wait for anything yet. It can be combined with a start that takes only a
    /// moment.
    First,
    /// It can be delayed and combined with later changes.
    Soon,
}

/// The write to make.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// The status is up to date.
    Nothing,
    /// A strategic merge patch of `status`.
    Patch(Value, Urgency),
    /// The pod has terminated and is marked for deletion: delete its object.
    Delete,
    /// The reported status is impossible: a container that terminated and must not restart is running. Write nothing.
    Impossible(String),
}

pub(super) fn plan(reported: ReportedPod<'_>, live: Live<'_>) -> Write {
    let is_same_life = !runs_again(reported.status, reported.lifecycle, live.status, live.is_mirror);
    if let Some(container) = revived(reported.status, live).filter(|_| is_same_life) {
        return Write::Impossible(container.to_owned());
    }
    let desired = merged(reported.status, reported.lifecycle, live.status, live.is_mirror);
    // Both are plain data of strings and numbers, which always serialize to JSON.
    let as_value = |status: &PodStatus| to_value(status).unwrap_or_default();
    if let Some(change) = patch::strategic(Kind::PodStatus, &as_value(live.status), &as_value(&desired)) {
        let urgency = urgency(live.status, &desired);
        return Write::Patch(json!({"metadata": {"uid": live.uid}, "status": change}), urgency);
    }
    if live.is_deleting && !live.is_mirror && reported.has_released && has_ended(live.status) {
        return Write::Delete;
    }
    Write::Nothing
}

fn urgency(live: &PodStatus, desired: &PodStatus) -> Urgency {
    let is_first = live.start_time.is_none() && desired.start_time.is_some();
    match is_first {
        _ if is_urgent(live, desired) => Urgency::Now,
        true if waits(desired) => Urgency::Now,
        true => Urgency::First,
        false => Urgency::Soon,
    }
}

/// Whether the pod waits for something that may take long: a volume, its sandbox, an image.
fn waits(status: &PodStatus) -> bool {
    let has_cause = |condition: &PodCondition| {
        let message = condition.message.as_deref().unwrap_or_default();
        condition.type_ == READY_TO_START && condition.status == "False" && cause_in(message) != message
    };
    let has_failed = |status: &ContainerStatus| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()).is_some_and(|reason| !is_default_reason(reason))
    };
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    status.conditions.iter().flatten().any(has_cause) || containers.into_iter().any(has_failed)
}

fn is_urgent(live: &PodStatus, desired: &PodStatus) -> bool {
    let condition = |status: &PodStatus, name: &str| {
        let mut all = status.conditions.iter().flatten();
        all.find(|condition| condition.type_ == name).map(|condition| condition.status.clone())
    };
    // A pod that is new has none reported, and is not resized.
    let is_resized = live.allocated_resources.is_some()
        && (live.allocated_resources != desired.allocated_resources || live.resources != desired.resources);
    is_resized
        || condition(live, RESIZE_PENDING) != condition(desired, RESIZE_PENDING)
        || live.phase != desired.phase
        || live.reason != desired.reason
        // Controllers of readiness gates wait for the readiness of containers.
        || ["Ready", "ContainersReady"].into_iter().any(|name| {
            let holds = |status| condition(status, name).unwrap_or_else(|| "False".to_owned());
            holds(live) != holds(desired)
        })
        || condition(live, "DisruptionTarget") != condition(desired, "DisruptionTarget")
}

/// A main container that is terminated on the API server and must not restart, but is reported as running (upstream
/// `checkContainerStateTransition`), except for one that was restarted on request: its last state is that termination.
fn revived<'a>(reported: &'a PodStatus, live: Live<'_>) -> Option<&'a str> {
    let is_always = |spec: &PodSpec| spec.restart_policy.as_deref() == Some("Always");
    let spec = live.spec.filter(|spec| !is_always(spec) && !may_restart_all(spec))?;
    let is_final = |reported: &ContainerStatus| {
        let name = &reported.name;
        let found = live.status.container_statuses.iter().flatten().find(|status| status.name == *name);
        let ended = found.and_then(|status| status.state.as_ref()?.terminated.as_ref());
        let container = spec.containers.iter().find(|container| container.name == *name);
        let restarts = |ended: &ContainerStateTerminated| {
            container.is_some_and(|container| restarts_after(spec, container, ended.exit_code))
        };
        let last = reported.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        let was_restarted = |ended: &ContainerStateTerminated| {
            ended.container_id.is_some() && last.is_some_and(|last| last.container_id == ended.container_id)
        };
        ended.is_some_and(|ended| !restarts(ended) && !was_restarted(ended))
    };
    let is_alive =
        |status: &&ContainerStatus| status.state.as_ref().is_none_or(|state| state.terminated.is_none());
    reported
        .container_statuses
        .iter()
        .flatten()
        .filter(is_alive)
        .find(|status| is_final(status))
        .map(|status| status.name.as_str())
}
