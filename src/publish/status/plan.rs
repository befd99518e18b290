//! What to write about one pod, and how soon. Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use serde_json::{Value, json};

use super::merge::merged;
use crate::api::patch::{self, Kind};
use crate::pod::PodPhase;
use crate::status::LifecycleSummary;
use crate::types::json::to_value;

/// What is told of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedPod<'a> {
    pub(super) status: &'a PodStatus,
    pub(super) lifecycle: LifecycleSummary,
    /// It holds nothing of the host any more.
    pub(super) has_released: bool,
}

/// The object that shows the pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live<'a> {
    pub(super) uid: &'a str,
    pub(super) status: &'a PodStatus,
    /// It is marked for deletion.
    pub(super) is_deleting: bool,
    /// It shows a static pod, which does not go with it.
    pub(super) is_mirror: bool,
    /// `spec.restartPolicy`.
    pub(super) restart_policy: &'a str,
}

/// How soon a write must be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Others wait for it: phase, readiness, the end.
    Now,
    /// It may wait for more of its kind.
    Soon,
}

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Everything is as told.
    Nothing,
    /// This strategic merge patch of `status`.
    Patch(Value, Urgency),
    /// The pod has ended and is marked for deletion: its object is deleted.
    Delete,
    /// What is told cannot be: a container that ended for good is said to be alive. Nothing is written.
    Impossible(String),
}

/// What to write about a pod.
pub(super) fn plan(told: ReportedPod<'_>, live: Live<'_>) -> Write {
    if let Some(container) = revived(told.status, live) {
        return Write::Impossible(container.to_owned());
    }
    let wanted = merged(told.status, told.lifecycle, live.status);
    // Both are plain data of strings and numbers, which always become JSON.
    let as_value = |status: &PodStatus| to_value(status).unwrap_or_default();
    if let Some(change) = patch::strategic(Kind::PodStatus, &as_value(live.status), &as_value(&wanted)) {
        let urgency = if is_urgent(live.status, &wanted) { Urgency::Now } else { Urgency::Soon };
        return Write::Patch(json!({"metadata": {"uid": live.uid}, "status": change}), urgency);
    }
    let has_ended = live.status.phase.as_deref().and_then(PodPhase::parse).is_some_and(PodPhase::is_terminal);
    if live.is_deleting && !live.is_mirror && told.has_released && has_ended {
        return Write::Delete;
    }
    Write::Nothing
}

fn is_urgent(live: &PodStatus, wanted: &PodStatus) -> bool {
    let condition = |status: &PodStatus, name: &str| {
        let mut all = status.conditions.iter().flatten();
        all.find(|condition| condition.type_ == name).map(|condition| condition.status.clone())
    };
    live.phase != wanted.phase
        || live.reason != wanted.reason
        || condition(live, "Ready").unwrap_or_else(|| "False".to_owned())
            != condition(wanted, "Ready").unwrap_or_else(|| "False".to_owned())
        || condition(live, "DisruptionTarget") != condition(wanted, "DisruptionTarget")
}

/// A container that the API server knows to have ended for good and that is told to be alive.
fn revived<'a>(told: &'a PodStatus, live: Live<'_>) -> Option<&'a str> {
    let ended_for_good = |name: &str| {
        let found = live.status.container_statuses.iter().flatten().find(|status| status.name == name);
        let ended = found.and_then(|status| status.state.as_ref()?.terminated.as_ref());
        ended.is_some_and(|ended| match live.restart_policy {
            "Never" => true,
            "OnFailure" => ended.exit_code == 0,
            _ => false,
        })
    };
    let is_alive =
        |status: &&ContainerStatus| status.state.as_ref().is_none_or(|state| state.terminated.is_none());
    told.container_statuses
        .iter()
        .flatten()
        .filter(is_alive)
        .find(|status| ended_for_good(&status.name))
        .map(|status| status.name.as_str())
}
