//! Container states of a pod that has finished (upstream `TerminatePod`): a container that should have run and has no end is
//! reported as failed, so that a terminal pod has no container that waits. Pure.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus};

use super::containers::{NOT_LOCATED, unlocated};
use hostlet_pod::{AdmittedPod, ContainerKind, PodContainer};

/// Gives an end to each container of a finished pod that has none: all main containers once the pod was initialized, and the init
/// containers up to the last that was started.
pub(super) fn end_all(pod: &AdmittedPod, inits: &mut [ContainerStatus], mains: &mut [ContainerStatus]) {
    if was_initialized(pod, inits, mains) {
        mains.iter_mut().for_each(end);
    }
    // Upstream takes the first one for started in any case.
    let started = inits.iter().rposition(has_started).unwrap_or(0);
    inits.iter_mut().take(started + 1).for_each(end);
}

fn end(status: &mut ContainerStatus) {
    let has_ended = status.state.as_ref().is_some_and(|state| state.terminated.is_some());
    if !has_ended {
        status.state =
            Some(ContainerState { terminated: Some(unlocated(NOT_LOCATED)), ..ContainerState::default() });
    }
}

/// Whether the container was ever started: it does not wait, or an earlier instance ended.
fn has_started(status: &ContainerStatus) -> bool {
    let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    !waits || status.last_state.as_ref().is_some_and(|last| last.terminated.is_some())
}

/// Whether main containers could start (upstream `hasPodInitialized`).
fn was_initialized(pod: &AdmittedPod, inits: &[ContainerStatus], mains: &[ContainerStatus]) -> bool {
    let Some(last) = pod.init_containers().last().map(PodContainer::init) else { return true };
    if mains.iter().any(has_started) {
        return true;
    }
    let Some(status) = inits.iter().find(|status| status.name == last.spec.name) else { return false };
    match last.kind {
        ContainerKind::Sidecar => {
            let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
            runs && status.started == Some(true)
        }
        ContainerKind::Init | ContainerKind::Main | ContainerKind::Ephemeral => {
            let ends = [&status.state, &status.last_state].into_iter().flatten();
            ends.filter_map(|state| state.terminated.as_ref()).any(|ended| ended.exit_code == 0)
        }
    }
}
