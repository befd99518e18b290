//! Merges the reported status of a pod with its status on the API server. Pure.
//!
//! The kubelet owns most of a pod's status: conditions of other types, and fields that the scheduler and controllers write,
//! are preserved.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use crate::pod::PodPhase;
use crate::status::{DISRUPTION_TARGET, LifecycleSummary, TERMINATION_BY_KUBELET, is_owned_condition};

/// The status to write. `reported` is the node's, `live` the API server's.
pub(super) fn merged(
    reported: &PodStatus,
    lifecycle: LifecycleSummary,
    live: &PodStatus,
    is_mirror: bool,
) -> PodStatus {
    // A static pod that a shutdown ended is the same pod when it runs again, and so is its mirror.
    let has_ended = reported.phase.as_deref().and_then(PodPhase::parse).is_some_and(PodPhase::is_terminal);
    let runs_again = is_mirror && lifecycle == LifecycleSummary::Active && !has_ended;
    let restarted = runs_again.then(|| without_its_end(live));
    let live = restarted.as_ref().unwrap_or(live);
    let mut status = reported.clone();
    keep_what_others_write(&mut status, live);
    let before = live.phase.as_deref().and_then(PodPhase::parse);
    let now = status.phase.as_deref().and_then(PodPhase::parse);
    match (before, now) {
        // A terminal phase is final, even if a restarted daemon does not know it.
        (Some(ended), _) if ended.is_terminal() => {
            status.phase = live.phase.clone();
            status.reason = live.reason.clone();
            status.message = live.message.clone();
        }
        // Controllers take a terminal phase to mean that nothing runs, so that must be certain.
        (_, Some(ended)) if ended.is_terminal() && lifecycle != LifecycleSummary::Terminated => {
            status.phase = live.phase.clone().or_else(|| Some(PodPhase::Pending.as_str().to_owned()));
            let reason = if ended == PodPhase::Failed { "PodFailed" } else { "PodCompleted" };
            for condition in status.conditions.iter_mut().flatten() {
                if matches!(&*condition.type_, "Ready" | "ContainersReady") {
                    condition.status = "False".to_owned();
                    condition.reason = Some(reason.to_owned());
                    condition.message = None;
                }
            }
        }
        (_, _) => {}
    }
    keep_transition_times(status.conditions.as_deref_mut().unwrap_or_default(), live);
    status
}

/// The status without the end that was reported of the pod.
fn without_its_end(live: &PodStatus) -> PodStatus {
    let mut status = PodStatus { phase: None, reason: None, message: None, ..live.clone() };
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|it| !(it.type_ == DISRUPTION_TARGET && is_ours(it)));
    }
    status
}

fn keep_what_others_write(status: &mut PodStatus, live: &PodStatus) {
    status.nominated_node_name = live.nominated_node_name.clone();
    status.resource_claim_statuses = live.resource_claim_statuses.clone();
    status.extended_resource_claim_status = live.extended_resource_claim_status.clone();
    status.node_allocatable_resource_claim_statuses = live.node_allocatable_resource_claim_statuses.clone();
    status.start_time = live.start_time.clone().or_else(|| status.start_time.take());
    let mut own = status.conditions.take().unwrap_or_default();
    // Conditions of others may be outdated in the reported status; the server's are current.
    own.retain(is_ours);
    let others = live.conditions.iter().flatten().filter(|condition| {
        !is_owned_condition(&condition.type_) && !own.iter().any(|ours| ours.type_ == condition.type_)
    });
    let others: Vec<PodCondition> = others.cloned().collect();
    own.extend(others);
    status.conditions = (!own.is_empty()).then_some(own);
}

fn is_ours(condition: &PodCondition) -> bool {
    let is_disruption = condition.type_ == DISRUPTION_TARGET;
    is_owned_condition(&condition.type_)
        || (is_disruption && condition.reason.as_deref() == Some(TERMINATION_BY_KUBELET))
}

/// An unchanged condition keeps its transition time.
fn keep_transition_times(conditions: &mut [PodCondition], live: &PodStatus) {
    for condition in conditions {
        let before = live.conditions.iter().flatten().find(|old| old.type_ == condition.type_);
        if let Some(before) = before.filter(|old| old.status == condition.status) {
            condition.last_transition_time = before.last_transition_time.clone();
        }
        // Only writers of readiness gates set it.
        condition.last_probe_time =
            before.and_then(|old| old.last_probe_time.clone()).or_else(|| condition.last_probe_time.take());
    }
}
