//! The phase of a pod, from the statuses of its containers (Kubernetes docs, "Pod Lifecycle"; upstream `getPhase`).

use hostlet_base::reasons;
use hostlet_pod::{ContainerKind, PodPhase};
use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus};

use super::input::LifecycleSummary;
use super::restart::Restarts;

/// A container's status, as far as the phase depends on it.
#[derive(Clone, Copy)]
enum Seen {
    Unknown,
    NeverStarted,
    Running {
        started: bool,
    },
    Ended(i32),
    /// Terminated before, and waits to be restarted.
    WaitingAgain(i32),
    /// Removed or lost, because all containers start again.
    Reset,
}

impl Seen {
    fn of(statuses: &[ContainerStatus], name: &str) -> Self {
        let Some(status) = statuses.iter().find(|status| status.name == name) else { return Self::Unknown };
        let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        match (&status.state, last) {
            (Some(ContainerState { running: Some(_), .. }), _) => {
                Self::Running { started: status.started.unwrap_or(false) }
            }
            (Some(ContainerState { terminated: Some(ended), .. }), _) => match ended.reason.as_deref() {
                Some(reasons::RESTARTING_ALL_CONTAINERS) => Self::Reset,
                Some(_) | None => Self::Ended(ended.exit_code),
            },
            (Some(ContainerState { waiting: Some(_), .. }), Some(last)) => match last.reason.as_deref() {
                Some(reasons::RESTARTING_ALL_CONTAINERS) => Self::Reset,
                Some(_) | None => Self::WaitingAgain(last.exit_code),
            },
            (Some(ContainerState { waiting: Some(_), .. }), None) => Self::NeverStarted,
            (Some(_) | None, _) => Self::Unknown,
        }
    }
}

#[derive(Default)]
struct Counts {
    unknown: usize,
    waiting: usize,
    running: usize,
    stopped: usize,
    /// Of the stopped: exited with 0.
    succeeded: usize,
    /// Of the stopped: not restarted.
    not_restarted: usize,
    /// Sidecars that have not started yet.
    pending_sidecars: usize,
}

/// The phase. `statuses` are of the main and init containers; `initialized` says whether a main container was
/// created in the present sandbox. A terminated static pod does not count as finished: its source may name it again.
pub(super) fn phase(
    restarts: Restarts<'_>,
    statuses: &[ContainerStatus],
    lifecycle: LifecycleSummary,
    initialized: bool,
) -> PodPhase {
    let pod = restarts.pod;
    let of_kind = |kind| pod.containers().filter(move |container| container.kind == kind).map(|it| it.spec);
    let mut init_pending = false;
    for init in of_kind(ContainerKind::Init) {
        match Seen::of(statuses, &init.name) {
            Seen::Ended(code) | Seen::WaitingAgain(code) if code != 0 && !restarts.after(init, code) => {
                return PodPhase::Failed;
            }
            Seen::Ended(_) | Seen::WaitingAgain(_) | Seen::Reset => {}
            Seen::Running { .. } | Seen::NeverStarted | Seen::Unknown => init_pending = true,
        }
    }
    let mut counts = Counts::default();
    for sidecar in of_kind(ContainerKind::Sidecar) {
        counts.add_sidecar(Seen::of(statuses, &sidecar.name));
    }
    for container in of_kind(ContainerKind::Main) {
        counts.add_main(restarts, container, Seen::of(statuses, &container.name));
    }
    if init_pending || counts.waiting > 0 || (counts.pending_sidecars > 0 && !initialized) {
        return PodPhase::Pending;
    }
    counts.phase(lifecycle == LifecycleSummary::Terminated && !pod.is_static)
}

impl Counts {
    /// Terminated sidecars do not matter: they are restarted while the pod is active.
    fn add_sidecar(&mut self, seen: Seen) {
        match seen {
            Seen::Unknown => self.unknown += 1,
            Seen::NeverStarted => {
                self.pending_sidecars += 1;
                self.waiting += 1;
            }
            Seen::Running { started } => {
                self.running += 1;
                self.pending_sidecars += usize::from(!started);
            }
            Seen::Ended(_) | Seen::WaitingAgain(_) | Seen::Reset => {}
        }
    }

    fn add_main(&mut self, restarts: Restarts<'_>, container: &Container, seen: Seen) {
        match seen {
            Seen::Unknown => self.unknown += 1,
            Seen::NeverStarted => self.waiting += 1,
            Seen::Running { .. } => self.running += 1,
            Seen::Ended(code) => {
                self.stopped += 1;
                self.not_restarted += usize::from(!restarts.after(container, code));
                self.succeeded += usize::from(code == 0);
            }
            Seen::Reset => self.stopped += 1,
            Seen::WaitingAgain(code) => {
                self.stopped += 1;
                self.not_restarted += usize::from(!restarts.after(container, code));
            }
        }
    }

    fn phase(&self, is_finished: bool) -> PodPhase {
        if self.unknown > 0 || self.running + self.stopped == 0 {
            PodPhase::Pending
        } else if self.running > 0 || (!is_finished && self.stopped != self.not_restarted) {
            PodPhase::Running
        } else if self.stopped == self.succeeded {
            PodPhase::Succeeded
        } else {
            PodPhase::Failed
        }
    }
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
