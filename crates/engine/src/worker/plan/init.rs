//! Initialization: init containers run one after the other, sidecars start in between and keep running (Kubernetes docs, "Init
//! Containers", "Sidecar Containers"; KEP-753). Only instances in the present sandbox count, so that everything runs again in a
//! new one, and nothing because the daemon restarted.

use k8s_openapi::api::core::v1::Container;

use super::actions::Plan;
use super::container::ContainerAction;
use super::input::{PlanInput, is_in};
use super::kill::Kill;
use hostlet_base::SandboxId;
use hostlet_pod::{ContainerKind, PodContainer, restarts_after};
use hostlet_runtime::cri::{ContainerState, ContainerStatus};

/// How far the initialization of a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Something has to run, start or exit before the main containers may start.
    UnderWay,
    /// The main containers may run.
    Complete,
    /// An init container failed, and is not started again.
    Failed,
}

/// Whether the next container may start.
enum Gate {
    Open,
    Closed,
    Failed,
}

/// Adds the actions for init containers and sidecars.
pub(super) fn add_inits(input: &PlanInput<'_>, sandbox: &SandboxId, plan: &mut Plan) -> Progress {
    let inits = input.pod.init_containers();
    let here = |container: &Container| {
        input.observed.containers.iter().find(|c| *c.name == *container.name && is_in(c, sandbox))
    };
    let reference = |container| PodContainer::init(container).reference();
    // A main container in this sandbox proves that all init containers succeeded, even if the runtime forgot them.
    if input.pod.spec().containers.iter().any(|main| here(main).is_some()) {
        for sidecar in inits.iter().map(PodContainer::init).filter(|it| it.kind == ContainerKind::Sidecar) {
            let (action, _) = run_sidecar(input, sidecar.spec, here(sidecar.spec), sandbox);
            plan.add(sidecar.reference(), action);
        }
        return Progress::Complete;
    }
    // Likewise, a container proves it for those before it.
    let latest = inits.iter().rposition(|init| here(init).is_some()).unwrap_or(0);
    for (index, container) in inits.iter().map(PodContainer::init).enumerate().take(latest + 1) {
        let is_latest = index == latest;
        let (action, gate) = match container.kind {
            ContainerKind::Sidecar => run_sidecar(input, container.spec, here(container.spec), sandbox),
            ContainerKind::Init | ContainerKind::Main | ContainerKind::Ephemeral if is_latest => {
                run_init(input, container.spec, here(container.spec), sandbox)
            }
            ContainerKind::Init | ContainerKind::Main | ContainerKind::Ephemeral => continue,
        };
        plan.add(container.reference(), action);
        match gate {
            Gate::Failed => return Progress::Failed,
            Gate::Closed if is_latest => {
                plan.later.extend(inits.iter().skip(index + 1).map(reference));
                return Progress::UnderWay;
            }
            Gate::Closed | Gate::Open => {}
        }
    }
    match inits.get(latest + 1) {
        Some(next) => {
            plan.add(reference(next), start_next(input, next));
            plan.later.extend(inits.iter().skip(latest + 2).map(reference));
            Progress::UnderWay
        }
        None => Progress::Complete,
    }
}

/// Starts a container that has no instance in this sandbox.
fn start_next(input: &PlanInput<'_>, container: &Container) -> ContainerAction {
    match input.observed.container(&container.name) {
        Some(status) if matches!(status.state, ContainerState::Running | ContainerState::Unknown) => {
            ContainerAction::Replace(input.kill_elsewhere(status))
        }
        Some(_) | None => input.anew(container),
    }
}

/// An init container runs until it succeeds.
fn run_init(
    input: &PlanInput<'_>,
    container: &Container,
    here: Option<&ContainerStatus>,
    sandbox: &SandboxId,
) -> (ContainerAction, Gate) {
    let Some(status) = here else { return (start_next(input, container), Gate::Closed) };
    let spec = input.pod.spec();
    match status.state {
        ContainerState::Created => (input.start_created(container, status, sandbox), Gate::Closed),
        // A changed definition does not stop it, as upstream.
        ContainerState::Running => (ContainerAction::Run, Gate::Closed),
        ContainerState::Exited if status.exit_code == 0 => (ContainerAction::End, Gate::Open),
        ContainerState::Exited if restarts_after(spec, container, status.exit_code) => {
            (input.restart(container, status), Gate::Closed)
        }
        ContainerState::Exited => (ContainerAction::End, Gate::Failed),
        ContainerState::Unknown if input.restarts_when_killed(container) => {
            (ContainerAction::Replace(kill_unknown(input, status)), Gate::Closed)
        }
        ContainerState::Unknown => (ContainerAction::End, Gate::Failed),
    }
}

/// A sidecar runs until the main containers have terminated. The next container may start once its startup probe succeeded.
fn run_sidecar(
    input: &PlanInput<'_>,
    container: &Container,
    here: Option<&ContainerStatus>,
    sandbox: &SandboxId,
) -> (ContainerAction, Gate) {
    let Some(status) = here else { return (start_next(input, container), Gate::Closed) };
    if let Some(requested) = input.requested(status, Some(sandbox)) {
        return (requested, Gate::Closed);
    }
    match status.state {
        ContainerState::Created => (input.start_created(container, status, sandbox), Gate::Closed),
        ContainerState::Running => {
            let has_started = input.probes.has_started(container, &status.id);
            let gate = if has_started { Gate::Open } else { Gate::Closed };
            let name = &container.name;
            if !input.is_current(container, status) {
                let kill = input.kill(status, format!("Init container {name} definition changed"), None);
                return (ContainerAction::Replace(kill), gate);
            }
            let Some((kind, probe)) = input.failed_probe(container, status) else {
                return (input.running_well(container, status), gate);
            };
            let kill = input.kill(status, format!("Init container {name} failed {kind} probe"), probe);
            (input.replace_failed(status, kill), gate)
        }
        ContainerState::Exited => (input.restart(container, status), Gate::Closed),
        ContainerState::Unknown => (ContainerAction::Replace(kill_unknown(input, status)), Gate::Closed),
    }
}

fn kill_unknown(input: &PlanInput<'_>, status: &ContainerStatus) -> Kill {
    let message = "Init container is in \"unknown\" state, try killing it before restart".to_owned();
    input.kill(status, message, None)
}
