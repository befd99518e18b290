//! Conditions of a pod that a kubelet owns (Kubernetes docs, "Pod Lifecycle", pod conditions). The others, written by
//! controllers for readiness gates, are kept as they are.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodCondition};

use super::ImagePull;
use super::input::{LifecycleSummary, StatusInput};
use hostlet_base::reasons;
use hostlet_pod::{
    AdmittedPod, ContainerKind, PodContainer, PodPhase, demands_restart_of_all, may_restart_all,
    whole_seconds,
};
use hostlet_runtime::cri::{ContainerState, SandboxState};

/// A sandbox with its network is ready. Its message says what containers that have not started wait for.
pub const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
/// Set by the component that terminates a pod because of a disruption.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// The kubelet's reason in [`DISRUPTION_TARGET`].
pub const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
/// A requested resize is pending.
pub const RESIZE_PENDING: &str = "PodResizePending";
pub(super) const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
/// The conditions of resizes (KEP-1287), which exist while they are true.
const RESIZE: [&str; 2] = [RESIZE_PENDING, RESIZE_IN_PROGRESS];
/// All containers are being removed, to start again (KEP-5532).
const ALL_RESTARTING: &str = "AllContainersRestarting";

// Upstream's messages of `PodReadyToStartContainers`.
const NO_SANDBOX: &str = "no pod sandbox exists";
const SEVERAL_SANDBOXES: &str = "multiple pod sandboxes are ready and need to be reconciled";
const SANDBOX_NOT_READY: &str = "pod sandbox is not ready";
const OTHER_NETWORK: &str = "network namespace mode changed and sandbox needs to be recreated";
const NO_ADDRESS: &str = "pod sandbox has no IP address";

/// The conditions generated here, in the kubelet's order; the last one only for pods with such a rule.
pub(super) const GENERATED: [&str; 6] =
    [READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, ALL_RESTARTING];

/// Whether the kubelet owns conditions of this type (upstream `PodConditionByKubelet`). `DisruptionTarget` is shared: ours is
/// written, conditions of others are preserved.
pub fn is_owned_condition(type_: &str) -> bool {
    GENERATED.contains(&type_) || RESIZE.contains(&type_)
}

/// The status of a condition, with a reason and a message if there is something to explain.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    holds: bool,
    reason: Option<String>,
    message: Option<String>,
}

impl Verdict {
    const TRUE: Self = Self { holds: true, reason: None, message: None };
    const FALSE: Self = Self { holds: false, reason: None, message: None };

    fn with_reason(self, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..self }
    }

    fn with_message(self, message: String) -> Self {
        Self { message: Some(message), ..self }
    }
}

/// All conditions of the pod: conditions of others, then the kubelet's. `statuses` are of the init and the regular
/// containers.
pub(super) fn conditions(
    input: &StatusInput<'_>,
    statuses: &[ContainerStatus],
    phase: PodPhase,
) -> Vec<PodCondition> {
    let pod = input.pod;
    let previous = input.previous.and_then(|previous| previous.conditions.as_deref()).unwrap_or_default();
    let is_ours = |type_: &str| GENERATED.contains(&type_) || RESIZE.contains(&type_);
    let mut conditions: Vec<PodCondition> =
        previous.iter().filter(|condition| !is_ours(&condition.type_)).cloned().collect();
    if !phase.is_terminal() {
        conditions.extend(resize_pending(pod));
        conditions.extend(resize_in_progress(input, previous));
    }
    let containers_ready = containers_ready(pod, statuses, phase);
    let ready = ready(pod, &containers_ready, &conditions);
    let verdicts = [
        Some(ready_to_start(input, statuses)),
        Some(initialized(input, statuses, phase)),
        Some(ready),
        Some(containers_ready),
        Some(Verdict::TRUE),
        may_restart_all(pod.spec()).then(|| all_restarting(input, phase)),
    ];
    let generated = GENERATED.into_iter().zip(verdicts);
    for (type_, verdict) in generated.filter_map(|(type_, verdict)| Some((type_, verdict?))) {
        let status = if verdict.holds { "True" } else { "False" };
        let unchanged = previous.iter().find(|before| before.type_ == type_ && before.status == status);
        let since = unchanged.and_then(|before| before.last_transition_time.clone());
        conditions.push(PodCondition {
            last_probe_time: None,
            last_transition_time: Some(since.unwrap_or_else(|| whole_seconds(input.now))),
            message: verdict.message,
            observed_generation: pod
                .metadata
                .generation
                .filter(|generation| *generation != 0 && type_ != ALL_RESTARTING),
            reason: verdict.reason,
            status: status.to_owned(),
            type_: type_.to_owned(),
        });
    }
    if let Some(message) = input.status_override.and_then(|status| status.disruption.as_deref()) {
        // The condition of another component may be over.
        let before = conditions.extract_if(.., |condition| condition.type_ == DISRUPTION_TARGET).next();
        let since = before.filter(|before| before.status == "True").and_then(|it| it.last_transition_time);
        conditions.push(PodCondition {
            last_probe_time: None,
            last_transition_time: Some(since.unwrap_or_else(|| whole_seconds(input.now))),
            message: Some(message.to_owned()),
            observed_generation: pod.metadata.generation.filter(|generation| *generation != 0),
            reason: Some(TERMINATION_BY_KUBELET.to_owned()),
            status: "True".to_owned(),
            type_: DISRUPTION_TARGET.to_owned(),
        });
    }
    conditions
}

fn resize_pending(pod: &AdmittedPod) -> Option<PodCondition> {
    let pending = pod.resize.pending.as_ref()?;
    let since = Some(whole_seconds(pending.since));
    Some(PodCondition {
        last_probe_time: since.clone(),
        last_transition_time: since,
        message: Some(pending.message.clone()),
        observed_generation: pending.generation,
        reason: Some(pending.reason.as_str().to_owned()),
        status: "True".to_owned(),
        type_: RESIZE_PENDING.to_owned(),
    })
}

/// Transitions when a resize begins, fails, or is followed by another.
fn resize_in_progress(input: &StatusInput<'_>, previous: &[PodCondition]) -> Option<PodCondition> {
    let resize = input.actuated?.resize.as_ref()?;
    let reason = resize.error.as_ref().map(|_| reasons::RESIZE_ERROR.to_owned());
    let before = previous.iter().find(|before| before.type_ == RESIZE_IN_PROGRESS);
    let same = before
        .filter(|before| before.reason.as_deref().filter(|reason| !reason.is_empty()) == reason.as_deref());
    let since = same.and_then(|same| same.last_transition_time.clone());
    let since = Some(since.unwrap_or_else(|| whole_seconds(input.now)));
    Some(PodCondition {
        last_probe_time: since.clone(),
        last_transition_time: since,
        message: resize.error.clone(),
        observed_generation: resize.generation.filter(|generation| *generation != 0),
        reason,
        status: "True".to_owned(),
        type_: RESIZE_IN_PROGRESS.to_owned(),
    })
}

/// Whether a sandbox with its network is ready. Its message is upstream's, and also what the pod's containers wait for, which
/// upstream reports only in events (a standalone host has none).
fn ready_to_start(input: &StatusInput<'_>, statuses: &[ContainerStatus]) -> Verdict {
    let is_active = input.lifecycle == LifecycleSummary::Active;
    let error = input.setup_error.filter(|_| is_active);
    match (sandbox_problem(input), error) {
        (Some(problem), Some(error)) => not_ready_to_start(format!("{problem}: {error}")),
        (Some(problem), None) => not_ready_to_start(problem.to_owned()),
        (None, Some(error)) => Verdict::TRUE.with_message(error.to_owned()),
        (None, None) if is_active => Verdict { message: pull_under_way(input, statuses), ..Verdict::TRUE },
        (None, None) => Verdict::TRUE,
    }
}

fn not_ready_to_start(message: String) -> Verdict {
    Verdict::FALSE.with_reason("PodSandboxNotReady").with_message(message)
}

/// What the pod's containers wait for, from the message of `PodReadyToStartContainers`.
pub fn cause_in(message: &str) -> &str {
    let problems = [NO_SANDBOX, SEVERAL_SANDBOXES, SANDBOX_NOT_READY, OTHER_NETWORK, NO_ADDRESS];
    let cause = problems.iter().find_map(|problem| message.strip_prefix(problem)?.strip_prefix(": "));
    cause.unwrap_or(message)
}

/// Why the pod's sandbox cannot be used (upstream `PodSandboxChanged`).
fn sandbox_problem(input: &StatusInput<'_>) -> Option<&'static str> {
    let sandboxes = &input.observed.sandboxes;
    let Some(newest) = sandboxes.first() else { return Some(NO_SANDBOX) };
    if sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count() > 1 {
        Some(SEVERAL_SANDBOXES)
    } else if newest.state != SandboxState::Ready {
        Some(SANDBOX_NOT_READY)
    } else if newest.host_network != input.pod.host_network {
        Some(OTHER_NETWORK)
    } else if !newest.host_network && newest.ips.is_empty() {
        Some(NO_ADDRESS)
    } else {
        None
    }
}

/// Whether this is the reason of a container that has not started, and has not failed to.
pub fn is_default_reason(reason: &str) -> bool {
    [reasons::CONTAINER_CREATING, reasons::POD_INITIALIZING].contains(&reason)
}

/// The pull that the first container waits for, if it waits for nothing else. One whose pull failed before has that for its reason.
fn pull_under_way(input: &StatusInput<'_>, statuses: &[ContainerStatus]) -> Option<String> {
    let waits = |container: &Container| {
        let state = find(statuses, container).and_then(|status| status.state.as_ref());
        let reason = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        reason.is_some_and(is_default_reason)
    };
    let waiting = input.pod.containers().filter(|container| waits(container.spec));
    let ImagePull { owner, image } = waiting.filter_map(|it| input.pulling.get(&it.spec.name)).next()?;
    Some(format!("pulling image {image:?} for {owner}"))
}

fn initialized(input: &StatusInput<'_>, statuses: &[ContainerStatus], phase: PodPhase) -> Verdict {
    let pod = input.pod;
    let inits = pod.init_containers().iter().map(PodContainer::init);
    let (unknown, incomplete) = split(inits, statuses, |kind, status| match kind {
        ContainerKind::Sidecar => status.started == Some(true),
        ContainerKind::Init | ContainerKind::Main | ContainerKind::Ephemeral => status.ready,
    });
    if phase == PodPhase::Succeeded && unknown.is_empty() {
        return Verdict::TRUE.with_reason("PodCompleted");
    }
    // Later restarts of sidecars do not reset it.
    let started = |container: &Container| {
        let state = find(statuses, container).and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    if pod.spec().containers.iter().any(started) {
        return Verdict::TRUE;
    }
    match message(&unknown, &incomplete, "incomplete") {
        None => Verdict::TRUE,
        // Not taken back, e.g. when all containers restart, as upstream.
        Some(_) if held(input, INITIALIZED) => Verdict::TRUE,
        Some(message) => Verdict::FALSE.with_reason("ContainersNotInitialized").with_message(message),
    }
}

/// Whether a container's exit demands a restart of all, and its instance is still there.
fn all_restarting(input: &StatusInput<'_>, phase: PodPhase) -> Verdict {
    match phase {
        PodPhase::Succeeded => Verdict::FALSE.with_reason("PodCompleted"),
        PodPhase::Failed => Verdict::FALSE.with_reason("PodFailed"),
        PodPhase::Pending | PodPhase::Running if is_restart_of_all_demanded(input) => Verdict::TRUE
            .with_reason("RestartAllContainersStarted")
            .with_message("container exited with restart policy rule".to_owned()),
        PodPhase::Pending | PodPhase::Running => Verdict::FALSE,
    }
}

fn is_restart_of_all_demanded(input: &StatusInput<'_>) -> bool {
    input.pod.containers().any(|container| {
        let newest = input.observed.container(&container.spec.name);
        newest.is_some_and(|newest| {
            newest.state == ContainerState::Exited && demands_restart_of_all(container.spec, newest.exit_code)
        })
    })
}

/// Whether all containers of the pod are being removed, to start again, or were removed since the last status.
pub(super) fn restarts_all(input: &StatusInput<'_>) -> bool {
    is_restart_of_all_demanded(input) || held(input, ALL_RESTARTING)
}

/// Whether the previous status had this condition.
fn held(input: &StatusInput<'_>, type_: &str) -> bool {
    let previous = input.previous.and_then(|previous| previous.conditions.as_deref()).unwrap_or_default();
    previous.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn containers_ready(pod: &AdmittedPod, statuses: &[ContainerStatus], phase: PodPhase) -> Verdict {
    let lasting = pod.containers().filter(|container| container.kind != ContainerKind::Init);
    let (unknown, unready) = split(lasting, statuses, |_, status| status.ready);
    match phase {
        PodPhase::Succeeded if unknown.is_empty() => return Verdict::FALSE.with_reason("PodCompleted"),
        PodPhase::Failed => return Verdict::FALSE.with_reason("PodFailed"),
        PodPhase::Pending | PodPhase::Running | PodPhase::Succeeded => {}
    }
    match message(&unknown, &unready, "unready") {
        None => Verdict::TRUE,
        Some(message) => Verdict::FALSE.with_reason("ContainersNotReady").with_message(message),
    }
}

/// The readiness of the containers and of the pod's readiness gates.
fn ready(pod: &AdmittedPod, containers_ready: &Verdict, others: &[PodCondition]) -> Verdict {
    if !containers_ready.holds {
        return containers_ready.clone();
    }
    let closed = |gate: &str| match others.iter().find(|condition| condition.type_ == gate) {
        None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
        Some(condition) if condition.status == "True" => None,
        Some(condition) => Some(format!(
            "the status of pod readiness gate {gate:?} is not \"True\", but {}",
            condition.status
        )),
    };
    let gates = pod.spec().readiness_gates.iter().flatten();
    let closed: Vec<String> = gates.filter_map(|gate| closed(&gate.condition_type)).collect();
    if closed.is_empty() {
        Verdict::TRUE
    } else {
        Verdict::FALSE.with_reason(reasons::READINESS_GATES_NOT_READY).with_message(closed.join(", "))
    }
}

/// Names of the containers without a status, and of those that do not satisfy the condition.
fn split<'a>(
    containers: impl Iterator<Item = PodContainer<'a>>,
    statuses: &[ContainerStatus],
    is_good: impl Fn(ContainerKind, &ContainerStatus) -> bool,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut unknown, mut bad) = (Vec::new(), Vec::new());
    for PodContainer { kind, spec: container } in containers {
        match find(statuses, container) {
            None => unknown.push(container.name.as_str()),
            Some(status) if !is_good(kind, status) => bad.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    (unknown, bad)
}

fn find<'s>(statuses: &'s [ContainerStatus], container: &Container) -> Option<&'s ContainerStatus> {
    statuses.iter().find(|status| status.name == container.name)
}

fn message(unknown: &[&str], bad: &[&str], adjective: &str) -> Option<String> {
    let lists = [("unknown", unknown), (adjective, bad)];
    let list = |(adjective, names): (&str, &[&str])| {
        (!names.is_empty()).then(|| format!("containers with {adjective} status: [{}]", names.join(" ")))
    };
    let parts: Vec<String> = lists.into_iter().filter_map(list).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
