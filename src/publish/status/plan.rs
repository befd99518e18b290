//! What to write for one pod, and how soon. Pure.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus};
use serde_json::{Value, json};

use super::merge::merged;
use crate::api::patch::{self, Kind};
use crate::pod::{PodPhase, may_restart_all, restarts_after};
use crate::status::{LifecycleSummary, RESIZE_PENDING};
use crate::types::json::to_value;

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
    /// It can be delayed and combined with later changes.
    Soon,
}

/// The write to make.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// The status is up to date.
    Nothing,
    /// This strategic merge patch of `status`.
    Patch(Value, Urgency),
    /// The pod has terminated and is marked for deletion: delete its object.
    Delete,
    /// The reported status is impossible: a container that terminated and must not restart is running. Write nothing.
    Impossible(String),
}

/// Plans the write for a pod.
pub(super) fn plan(reported: ReportedPod<'_>, live: Live<'_>) -> Write {
    if let Some(container) = revived(reported.status, live) {
        return Write::Impossible(container.to_owned());
    }
    let desired = merged(reported.status, reported.lifecycle, live.status, live.is_mirror);
    // Both are plain data of strings and numbers, which always serialize to JSON.
    let as_value = |status: &PodStatus| to_value(status).unwrap_or_default();
    if let Some(change) = patch::strategic(Kind::PodStatus, &as_value(live.status), &as_value(&desired)) {
        let urgency = if is_urgent(live.status, &desired) { Urgency::Now } else { Urgency::Soon };
        return Write::Patch(json!({"metadata": {"uid": live.uid}, "status": change}), urgency);
    }
    let has_ended = live.status.phase.as_deref().and_then(PodPhase::parse).is_some_and(PodPhase::is_terminal);
    if live.is_deleting && !live.is_mirror && reported.has_released && has_ended {
        return Write::Delete;
    }
    Write::Nothing
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
        || condition(live, "Ready").unwrap_or_else(|| "False".to_owned())
            != condition(desired, "Ready").unwrap_or_else(|| "False".to_owned())
        || condition(live, "DisruptionTarget") != condition(desired, "DisruptionTarget")
}

/// A main container that is terminated on the API server and must not restart, but is reported as running (upstream
/// `checkContainerStateTransition`).
fn revived<'a>(reported: &'a PodStatus, live: Live<'_>) -> Option<&'a str> {
    let is_always = |spec: &PodSpec| spec.restart_policy.as_deref() == Some("Always");
    let spec = live.spec.filter(|spec| !is_always(spec) && !may_restart_all(spec))?;
    let is_final = |name: &str| {
        let found = live.status.container_statuses.iter().flatten().find(|status| status.name == name);
        let ended = found.and_then(|status| status.state.as_ref()?.terminated.as_ref());
        let container = spec.containers.iter().find(|container| container.name == name);
        let restarts = |ended: &ContainerStateTerminated| {
            container.is_some_and(|container| restarts_after(spec, container, ended.exit_code))
        };
        ended.is_some_and(|ended| !restarts(ended))
    };
    let is_alive =
        |status: &&ContainerStatus| status.state.as_ref().is_none_or(|state| state.terminated.is_none());
    reported
        .container_statuses
        .iter()
        .flatten()
        .filter(is_alive)
        .find(|status| is_final(&status.name))
        .map(|status| status.name.as_str())
}
