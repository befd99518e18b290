//! Merges the reported status of a pod with its status on the API server. Pure.
//!
//! The kubelet owns most of a pod's status: conditions of other types, and fields that the scheduler and controllers write,
//! are preserved.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use hostlet_observe::status::{
    DISRUPTION_TARGET, LifecycleSummary, TERMINATION_BY_KUBELET, is_owned_condition,
};
use hostlet_pod::{PodPhase, has_ended};

/// The status to write. `reported` is the node's, `live` the API server's.
pub(super) fn merged(
    reported: &PodStatus,
    lifecycle: LifecycleSummary,
    live: &PodStatus,
    is_mirror: bool,
) -> PodStatus {
    let restarted = runs_again(reported, lifecycle, live, is_mirror).then(|| without_its_end(live));
    let live = restarted.as_ref().unwrap_or(live);
    let mut status = reported.clone();
    // A terminal phase is final, even if a restarted daemon does not know it.
    let had_ended = has_ended(live);
    // Controllers take a terminal phase to mean that nothing runs, so that must be certain.
    let ends = !had_ended && has_ended(reported) && lifecycle == LifecycleSummary::Terminated;
    keep_what_others_write(&mut status, live, ends);
    if had_ended || (has_ended(reported) && !ends) {
        let pending = || PodPhase::Pending.as_str().to_owned();
        status.phase = Some(live.phase.clone().unwrap_or_else(pending));
        status.reason = live.reason.clone();
        status.message = live.message.clone();
    }
    keep_transition_times(status.conditions.as_deref_mut().unwrap_or_default(), live);
    status
}

/// Whether a mirror shows the end of a static pod that runs: one that a shutdown ended is the same pod when it runs again, and so
/// is its mirror.
pub(super) fn runs_again(
    reported: &PodStatus,
    lifecycle: LifecycleSummary,
    live: &PodStatus,
    is_mirror: bool,
) -> bool {
    is_mirror && lifecycle == LifecycleSummary::Active && has_ended(live) && !has_ended(reported)
}

/// The status without the end that was reported of the pod.
fn without_its_end(live: &PodStatus) -> PodStatus {
    let mut status = PodStatus { phase: None, reason: None, message: None, ..live.clone() };
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|it| !is_our_disruption(it));
    }
    status
}

/// `ends` says whether the pod gets its terminal phase: our `DisruptionTarget` is written with that, not before, and never again.
fn keep_what_others_write(status: &mut PodStatus, live: &PodStatus, ends: bool) {
    status.nominated_node_name = live.nominated_node_name.clone();
    status.resource_claim_statuses = live.resource_claim_statuses.clone();
    status.extended_resource_claim_status = live.extended_resource_claim_status.clone();
    status.node_allocatable_resource_claim_statuses = live.node_allocatable_resource_claim_statuses.clone();
    status.start_time = live.start_time.clone().or_else(|| status.start_time.take());
    let mut own = status.conditions.take().unwrap_or_default();
    // Conditions of others may be outdated in the reported status; the server's are current.
    own.retain(|condition| is_owned_condition(&condition.type_) || (ends && is_our_disruption(condition)));
    let others = live.conditions.iter().flatten().filter(|condition| {
        !is_owned_condition(&condition.type_) && !own.iter().any(|ours| ours.type_ == condition.type_)
    });
    let others: Vec<PodCondition> = others.cloned().collect();
    own.extend(others);
    status.conditions = (!own.is_empty()).then_some(own);
}

fn is_our_disruption(condition: &PodCondition) -> bool {
    condition.type_ == DISRUPTION_TARGET && condition.reason.as_deref() == Some(TERMINATION_BY_KUBELET)
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
