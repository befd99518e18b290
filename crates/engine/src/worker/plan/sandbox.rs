//! Whether a pod's sandbox can be kept.

use hostlet_pod::RestartPolicy;
use hostlet_runtime::cri::{ContainerState, SandboxState};

use super::actions::SandboxPlan;
use super::input::PlanInput;

/// What to do about the sandbox (upstream's `PodSandboxChanged`, in its order).
pub(super) fn sandbox_plan(input: &PlanInput<'_>) -> SandboxPlan {
    let (pod, observed) = (input.pod, input.observed);
    let Some(newest) = observed.sandbox() else {
        return SandboxPlan::Create {
            attempt: 0,
            reason: "No sandbox for pod can be found. Need to start a new one".into(),
        };
    };
    let ready = observed.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).count();
    let reason = if ready > 1 {
        "Multiple sandboxes are ready for Pod. Need to reconcile them"
    } else if newest.state != SandboxState::Ready {
        "No ready sandbox for pod can be found. Need to start a new one"
    } else if newest.host_network != pod.host_network || observed.pod.full_name() != pod.reference.full_name()
    {
        // The name differs if the manifest was renamed and keeps its UID.
        "Sandbox for pod has changed. Need to start a new one"
    } else if !pod.host_network && newest.ips.is_empty() {
        "Sandbox for pod has no IP address. Need to start a new one"
    } else {
        return SandboxPlan::Keep(newest.id.clone());
    };
    SandboxPlan::Create { attempt: newest.attempt.saturating_add(1), reason: reason.into() }
}

/// Whether a pod must not get a sandbox of this attempt: one of policy `Never` gets no second sandbox once a container ran, as
/// upstream.
pub(super) fn is_forbidden(input: &PlanInput<'_>, attempt: u32) -> bool {
    match input.pod.restart_policy {
        RestartPolicy::Never => {
            let ran = input.observed.containers.iter().any(|c| c.state != ContainerState::Created);
            attempt != 0 && ran
        }
        RestartPolicy::Always | RestartPolicy::OnFailure => false,
    }
}
