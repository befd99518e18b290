//! What a pod's status on the API server should be, from what is told of the pod and what is there. Pure.
//!
//! The kubelet owns most of a pod's status but not all of it: conditions of other types, and fields that the scheduler and
//! controllers write, stay as they are.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use crate::pod::PodPhase;
use crate::status::{DISRUPTION_TARGET, LifecycleSummary, TERMINATION_BY_KUBELET, is_owned_condition};

/// The status to be written. `told` is what is told of the pod, `live` what the API server has.
pub(super) fn merged(told: &PodStatus, lifecycle: LifecycleSummary, live: &PodStatus) -> PodStatus {
    let mut status = told.clone();
    keep_what_others_write(&mut status, live);
    let before = live.phase.as_deref().and_then(PodPhase::parse);
    let now = status.phase.as_deref().and_then(PodPhase::parse);
    match (before, now) {
        // Never left, whatever a daemon that knows less may think.
        (Some(ended), _) if ended.is_terminal() => {
            status.phase = live.phase.clone();
            status.reason = live.reason.clone();
            status.message = live.message.clone();
        }
        // Controllers take a terminal phase for "nothing runs any more"; that is to be proven first.
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

fn keep_what_others_write(status: &mut PodStatus, live: &PodStatus) {
    status.nominated_node_name = live.nominated_node_name.clone();
    status.resource_claim_statuses = live.resource_claim_statuses.clone();
    status.extended_resource_claim_status = live.extended_resource_claim_status.clone();
    status.node_allocatable_resource_claim_statuses = live.node_allocatable_resource_claim_statuses.clone();
    status.start_time = live.start_time.clone().or_else(|| status.start_time.take());
    let mut own = status.conditions.take().unwrap_or_default();
    // Those of others are told as they were when the pod was last read; the server knows better.
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

/// A condition that says the same as before has said so since then.
fn keep_transition_times(conditions: &mut [PodCondition], live: &PodStatus) {
    for condition in conditions {
        let before = live.conditions.iter().flatten().find(|old| old.type_ == condition.type_);
        if let Some(before) = before.filter(|old| old.status == condition.status) {
            condition.last_transition_time = before.last_transition_time.clone();
        }
        // Nobody but readiness gates' writers uses it, and they may have.
        condition.last_probe_time =
            before.and_then(|old| old.last_probe_time.clone()).or_else(|| condition.last_probe_time.take());
    }
}
