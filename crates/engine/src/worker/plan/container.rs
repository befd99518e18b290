//! What to do with one container of the spec, judged by its newest instance.

use k8s_openapi::api::core::v1::{Container, Probe};

use super::actions::{BackingOff, Plan, Start};
use super::input::{PlanInput, is_in};
use super::kill::Kill;
use hostlet_base::{ContainerId, SandboxId};
use hostlet_pod::{ContainerRef, PodContainer, ProbeKind, RestartPolicy, restarts_after};
use hostlet_runtime::cri::{ContainerState, ContainerStatus};

/// What to do with one container of the spec.
pub(super) enum ContainerAction {
    /// It runs as it should.
    Run,
    /// It has terminated and is not started again.
    End,
    /// It should run and does not.
    Start { adopt: Option<ContainerId>, replace: Option<ContainerId> },
    /// It waits out its back-off.
    Wait(BackingOff),
    /// It has to be stopped, and then started again.
    Replace(Kill),
    /// It has to be stopped, and is started again once its back-off is over.
    StopAndWait(Kill),
    /// It has to be stopped, and is not started again.
    Stop(Kill),
}

impl ContainerAction {
    /// It should run, and has to be created.
    pub(super) fn create() -> Self {
        Self::Start { adopt: None, replace: None }
    }
}

impl Plan {
    /// Adds what is to be done with a container.
    pub(super) fn add(&mut self, container: ContainerRef, action: ContainerAction) {
        match action {
            ContainerAction::Run | ContainerAction::End => {}
            ContainerAction::Start { adopt, replace } => self.start.push(Start { container, adopt, replace }),
            ContainerAction::Wait(wait) => self.backing_off.push(wait),
            ContainerAction::Replace(kill) => {
                self.kill.push(kill);
                self.start.push(Start { container, adopt: None, replace: None });
            }
            ContainerAction::StopAndWait(kill) | ContainerAction::Stop(kill) => self.kill.push(kill),
        }
    }
}

impl PlanInput<'_> {
    /// What to do with a main container in the sandbox that is kept.
    pub(super) fn main(&self, container: &Container, sandbox: &SandboxId) -> ContainerAction {
        let Some(status) = self.observed.container(&container.name) else { return ContainerAction::create() };
        if let Some(requested) = self.requested(status, Some(sandbox)) {
            return requested;
        }
        match status.state {
            ContainerState::Running if !is_in(status, sandbox) => {
                ContainerAction::Replace(self.kill_elsewhere(status))
            }
            ContainerState::Running => self.running_main(container, status),
            ContainerState::Created => self.start_created(container, status, sandbox),
            ContainerState::Unknown => {
                let message = "Container is in \"unknown\" state, try killing it before restart".to_owned();
                ContainerAction::Replace(self.kill(status, message, None))
            }
            ContainerState::Exited if !is_in(status, sandbox) => self.main_in_new_sandbox(container),
            ContainerState::Exited => self.ended_main(container, status),
        }
    }

    /// What to do with a main container whose sandbox is lost: everything in it counts as terminated. As upstream, only one of policy
    /// `OnFailure` that succeeded does not run again: the policies of containers (KEP-5307) are about their own exits.
    pub(super) fn main_in_new_sandbox(&self, container: &Container) -> ContainerAction {
        let Some(status) = self.observed.container(&container.name) else { return ContainerAction::create() };
        if let Some(requested) = self.requested(status, None) {
            return requested;
        }
        let runs_once = RestartPolicy::of_container(self.pod.spec(), container) == RestartPolicy::OnFailure;
        // Stopped because of a probe: its exit code says nothing.
        let succeeded = status.exit_code == 0 && self.probes.failed(&status.id).is_none();
        match status.state {
            ContainerState::Exited if self.pod.restart_policy == RestartPolicy::Never => {
                self.ended_main(container, status)
            }
            ContainerState::Exited if runs_once && succeeded => ContainerAction::End,
            ContainerState::Exited
            | ContainerState::Created
            | ContainerState::Running
            | ContainerState::Unknown => self.anew(container),
        }
    }

    /// Starts a container that has no instance in the sandbox, whatever became of its earlier ones, within its back-off.
    pub(super) fn anew(&self, container: &Container) -> ContainerAction {
        let Some(status) = self.observed.container(&container.name) else { return ContainerAction::create() };
        match status.state {
            ContainerState::Exited => self.restart(container, status),
            ContainerState::Created => {
                ContainerAction::Start { adopt: None, replace: Some(status.id.clone()) }
            }
            ContainerState::Running | ContainerState::Unknown => ContainerAction::create(),
        }
    }

    /// Starts an instance that was created and not started, or replaces it if it is outdated.
    pub(super) fn start_created(
        &self,
        container: &Container,
        status: &ContainerStatus,
        sandbox: &SandboxId,
    ) -> ContainerAction {
        let id = Some(status.id.clone());
        if is_in(status, sandbox) && self.is_current(container, status) {
            ContainerAction::Start { adopt: id, replace: None }
        } else {
            ContainerAction::Start { adopt: None, replace: id }
        }
    }

    /// Starts a new instance after this one, once its back-off is over. That of another definition says nothing about this one.
    pub(super) fn restart(&self, container: &Container, ended: &ContainerStatus) -> ContainerAction {
        match self.crash_loops.in_force(ended, self.now) {
            Some((pause, until)) if self.is_current(container, ended) => {
                ContainerAction::Wait(BackingOff { name: ended.name.to_string(), pause, until })
            }
            Some(_) | None => ContainerAction::create(),
        }
    }

    /// The restart that a user requested, whatever the policy and without back-off; `None` if none was, or the container does
    /// not run and is about to be started anyway.
    pub(super) fn requested(
        &self,
        status: &ContainerStatus,
        sandbox: Option<&SandboxId>,
    ) -> Option<ContainerAction> {
        if !self.restarts.contains(&status.id) {
            return None;
        }
        match status.state {
            ContainerState::Running if sandbox.is_some() => {
                let message = format!("Container {} will be restarted on request", status.name);
                Some(ContainerAction::Replace(self.kill(status, message, None)))
            }
            ContainerState::Exited => Some(ContainerAction::create()),
            ContainerState::Running | ContainerState::Created | ContainerState::Unknown => None,
        }
    }

    /// Whether an instance matches the container's present definition.
    pub(super) fn is_current(&self, container: &Container, status: &ContainerStatus) -> bool {
        status.hash == Some((self.hash)(container))
    }

    /// Stops an instance within the pod's grace period, or that of the probe that failed.
    pub(super) fn kill(&self, status: &ContainerStatus, message: String, probe: Option<&Probe>) -> Kill {
        let of_probe = probe.and_then(|probe| probe.termination_grace_period_seconds);
        let grace_seconds = of_probe.or(self.pod.grace_seconds).unwrap_or(0);
        Kill { id: status.id.clone(), name: status.name.to_string(), message, grace_seconds }
    }

    /// Stops an instance that runs in an older sandbox.
    pub(super) fn kill_elsewhere(&self, status: &ContainerStatus) -> Kill {
        let message = format!("Container {} runs in an earlier sandbox, will be restarted", status.name);
        self.kill(status, message, None)
    }

    fn running_main(&self, container: &Container, status: &ContainerStatus) -> ContainerAction {
        let name = &container.name;
        if !self.is_current(container, status) {
            let message = format!("Container {name} definition changed, will be restarted");
            return ContainerAction::Replace(self.kill(status, message, None));
        }
        let Some((kind, probe)) = self.failed_probe(container, status) else {
            return self.running_well(container, status);
        };
        let message = format!("Container {name} failed {kind} probe");
        if self.restarts_when_killed(container) {
            self.replace_failed(status, self.kill(status, format!("{message}, will be restarted"), probe))
        } else {
            ContainerAction::Stop(self.kill(status, message, probe))
        }
    }

    /// What to do with an instance that runs as it should: it is replaced if its resize policy demands that.
    pub(super) fn running_well(&self, container: &Container, status: &ContainerStatus) -> ContainerAction {
        match self.restarts_to_resize(container) {
            true => {
                let message = format!("Container {} resize requires restart", container.name);
                ContainerAction::Replace(self.kill(status, message, None))
            }
            false => ContainerAction::Run,
        }
    }

    /// Whether a container that was stopped for a reason of its own is started again. Without an exit code, rules do not apply.
    pub(super) fn restarts_when_killed(&self, container: &Container) -> bool {
        match RestartPolicy::of_container(self.pod.spec(), container) {
            RestartPolicy::Always | RestartPolicy::OnFailure => true,
            RestartPolicy::Never => false,
        }
    }

    /// Replaces an instance whose probe failed. The back-off of the instance before it applies, as upstream: what fails its probe
    /// again and again ends in a crash loop.
    pub(super) fn replace_failed(&self, status: &ContainerStatus, kill: Kill) -> ContainerAction {
        let mut ended = self.observed.containers.iter().filter(|c| c.state == ContainerState::Exited);
        let before = ended.find(|c| c.name == status.name && c.hash == status.hash);
        match before.and_then(|before| self.crash_loops.in_force_after(before, self.now)) {
            Some(_) => ContainerAction::StopAndWait(kill),
            None => ContainerAction::Replace(kill),
        }
    }

    /// The probe whose failure requires a restart of a running instance, with its kind in words.
    pub(super) fn failed_probe<'c>(
        &self,
        container: &'c Container,
        status: &ContainerStatus,
    ) -> Option<(&'static str, Option<&'c Probe>)> {
        match self.probes.failed(&status.id)? {
            ProbeKind::Liveness => Some(("liveness", container.liveness_probe.as_ref())),
            ProbeKind::Startup => Some(("startup", container.startup_probe.as_ref())),
            ProbeKind::Readiness => None,
        }
    }

    fn ended_main(&self, container: &Container, status: &ContainerStatus) -> ContainerAction {
        // Stopped because of a probe: its exit code says nothing.
        let is_killed = self.probes.failed(&status.id).is_some() && self.restarts_when_killed(container);
        if is_killed || restarts_after(self.pod.spec(), container, status.exit_code) {
            self.restart(container, status)
        } else {
            ContainerAction::End
        }
    }
}

/// What to do with an ephemeral container in the sandbox that is kept: it starts once, whatever becomes of it (Kubernetes docs,
/// "Ephemeral Containers").
pub(super) fn ephemeral(
    input: &PlanInput<'_>,
    container: PodContainer<'_>,
    sandbox: &SandboxId,
) -> ContainerAction {
    let Some(status) = input.observed.container(&container.spec.name) else {
        return ContainerAction::create();
    };
    match status.state {
        ContainerState::Created => input.start_created(container.spec, status, sandbox),
        ContainerState::Running => ContainerAction::Run,
        ContainerState::Exited | ContainerState::Unknown => ContainerAction::End,
    }
}
