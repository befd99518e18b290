//! The whole status of a pod (upstream `generateAPIPodStatus`). Pure: the same input always gives the same status.

use std::net::IpAddr;

use hostlet_pod::resources::whole_resources;
use hostlet_pod::view::shown_ips;
use hostlet_pod::{ContainerKind, PodPhase, whole_seconds};
use hostlet_runtime::cri::SandboxState;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, PodIP, PodStatus as ApiPodStatus};

use super::conditions::conditions;
use super::containers::{ephemeral_container_statuses, init_container_statuses, main_container_statuses};
use super::finished::end_all;
use super::input::{LifecycleSummary, StatusInput};
use super::phase::phase;
use super::restart::Restarts;

/// The pod's status as of now.
pub(super) fn generate(input: &StatusInput<'_>) -> ApiPodStatus {
    let pod = input.pod;
    let mut init_statuses = init_container_statuses(input);
    let mut statuses = main_container_statuses(input);
    let all: Vec<ContainerStatus> = init_statuses.iter().chain(&statuses).cloned().collect();
    let (phase, reason, message) = outcome(input, &all);
    // The end that a kill gives to the pod says nothing about containers that still run.
    let of_conditions = match input.lifecycle {
        LifecycleSummary::Terminating if input.status_override.is_some() => own_phase(input, &all),
        LifecycleSummary::Active | LifecycleSummary::Terminating | LifecycleSummary::Terminated => phase,
    };
    let conditions = conditions(input, &all, of_conditions);
    if input.lifecycle == LifecycleSummary::Terminated {
        end_all(pod, &mut init_statuses, &mut statuses);
    }
    let resources = whole_resources(input.pod);
    let enforced = input.actuated.and_then(|actuated| actuated.pod);
    let actual = enforced.map_or_else(|| resources.clone(), |enforced| enforced.shown_in(&resources));
    let ips = shown_ips(input.pod.host_network, &input.observed.ips, input.host_ips);
    let texts = |ips: &[IpAddr]| ips.iter().map(IpAddr::to_string).collect::<Vec<_>>();
    let previous = input.previous.cloned().unwrap_or_default();
    ApiPodStatus {
        allocated_resources: resources.requests.clone(),
        conditions: Some(conditions),
        container_statuses: Some(statuses),
        ephemeral_container_statuses: list(ephemeral_container_statuses(input), |status| status),
        host_ip: input.host_ips.first().map(IpAddr::to_string),
        host_ips: list(texts(input.host_ips), |ip| HostIP { ip }),
        init_container_statuses: list(init_statuses, |status| status),
        message,
        observed_generation: pod.metadata.generation.filter(|generation| *generation != 0),
        phase: Some(phase.as_str().to_owned()),
        pod_ip: ips.first().map(IpAddr::to_string),
        pod_ips: list(texts(&ips), |ip| PodIP { ip }),
        qos_class: Some(input.pod.qos.as_str().to_owned()),
        reason,
        resources: Some(actual),
        start_time: previous.start_time.clone().or_else(|| Some(whole_seconds(earliest_start(input)))),
        // Fields that others than the kubelet write.
        ..previous_of_others(previous)
    }
}

/// The start time of a pod without a previous status: the creation of its oldest remaining sandbox, which an earlier daemon
/// may have created, or now.
fn earliest_start(input: &StatusInput<'_>) -> Timestamp {
    let sandboxes = input.observed.sandboxes.iter().map(|sandbox| sandbox.created_at);
    sandboxes.min().map_or(input.now, |created| created.min(input.now))
}

fn previous_of_others(previous: ApiPodStatus) -> ApiPodStatus {
    ApiPodStatus {
        nominated_node_name: previous.nominated_node_name,
        resource_claim_statuses: previous.resource_claim_statuses,
        extended_resource_claim_status: previous.extended_resource_claim_status,
        node_allocatable_resource_claim_statuses: previous.node_allocatable_resource_claim_statuses,
        ..ApiPodStatus::default()
    }
}

/// Phase with its reason and message. A terminal phase is never left, and a terminated pod is in one.
fn outcome(
    input: &StatusInput<'_>,
    statuses: &[ContainerStatus],
) -> (PodPhase, Option<String>, Option<String>) {
    let pod = input.pod;
    let previous = input.previous;
    let before = previous.and_then(PodPhase::of);
    let kept = |phase| {
        let same = previous.filter(|_| before == Some(phase));
        (phase, same.and_then(|same| same.reason.clone()), same.and_then(|same| same.message.clone()))
    };
    match (before, input.status_override) {
        // A later kill replaces the reason of an earlier one, as upstream; a pod that failed by itself keeps its status.
        (Some(PodPhase::Failed), Some(status))
            if status.phase == PodPhase::Failed && previous.is_some_and(|p| p.reason.is_some()) =>
        {
            (PodPhase::Failed, Some(status.reason.clone()), Some(status.message.clone()))
        }
        (Some(terminal), _) if terminal.is_terminal() => kept(terminal),
        (_, Some(status)) => (status.phase, Some(status.reason.clone()), Some(status.message.clone())),
        (_, None) => {
            let phase = own_phase(input, statuses);
            let over = input.lifecycle == LifecycleSummary::Terminated && !pod.is_static;
            kept(if over && !phase.is_terminal() { PodPhase::Failed } else { phase })
        }
    }
}

/// The phase that follows from the containers.
fn own_phase(input: &StatusInput<'_>, statuses: &[ContainerStatus]) -> PodPhase {
    let restarts = Restarts { pod: input.pod, starting: input.starting };
    phase(restarts, statuses, input.lifecycle, is_initialized(input))
}

/// Whether a main container was created in the present sandbox.
fn is_initialized(input: &StatusInput<'_>) -> bool {
    let Some(sandbox) = input.observed.sandbox().filter(|newest| newest.state == SandboxState::Ready) else {
        return false;
    };
    let is_main = |name: &str| input.pod.kind_of(name) == Some(ContainerKind::Main);
    let inside = |container: &Option<_>| container.as_ref().is_none_or(|id| *id == sandbox.id);
    input.observed.containers.iter().any(|seen| is_main(&seen.name) && inside(&seen.sandbox))
}

/// The API omits empty lists.
fn list<T, U>(items: Vec<T>, wrap: impl Fn(T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.into_iter().map(wrap).collect())
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
