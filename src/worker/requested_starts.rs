//! Starts that were asked for, and what came of those whose answer was lost. Pure; asks nobody and keeps nothing itself.
//!
//! A daemon or a runtime that is killed in the middle of a start leaves a container of which the runtime's record does not
//! tell all:
//!
//! - a start that was taken back because its caller went away, before the runtime began the process, is recorded as
//!   failed. The process never ran, so the container counts as never started;
//! - a runtime that was killed while it started a container lists it as made, though its process may have run, and ended.
//!   A container that is to run once must not be started again then. So the start is noted before it is asked for,
//!   with the run of the runtime that is asked: one that still is the same has not lost anything.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cri::{ContainerState, ContainerStatus};
use crate::pleg::PodStatus;
use crate::types::ContainerId;

/// Exit code told of a container nobody saw ending: as if killed (as upstream).
const UNKNOWN_EXIT_CODE: i32 = 137;
/// What containerd records of a container that it could not start.
const START_ERROR: (&str, i32) = ("StartError", 128);

/// The starts asked for in one pod: of containers that must not run again when nobody knows whether they ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestedStarts(Vec<RequestedStart>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RequestedStart {
    container: String,
    /// The run of the runtime that was asked, if that could be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
}

impl RequestedStarts {
    /// Notes that `runtime` is about to be asked to start a container, and forgets those that it no longer has.
    pub(super) fn note(&mut self, id: &ContainerId, runtime: Option<String>, observed: &PodStatus) {
        let is_there =
            |asked: &RequestedStart| observed.containers.iter().any(|c| c.id.as_str() == asked.container);
        self.0.retain(|asked| is_there(asked) && asked.container != id.as_str());
        self.0.push(RequestedStart { container: id.to_string(), runtime });
    }

    /// Whether the start of a container was asked of another run of the runtime than this one.
    fn is_lost(&self, id: &ContainerId, runtime: Option<&str>) -> bool {
        let asked = self.0.iter().find(|asked| asked.container == id.as_str());
        asked.is_some_and(|asked| runtime.is_none() || asked.runtime.as_deref() != runtime)
    }
}

/// Whether the runtime must be asked more before it is clear what became of this container's start.
pub(super) fn is_unclear(container: &ContainerStatus) -> bool {
    container.state == ContainerState::Created
}

/// How containerd says that whoever asked went away: it took its work back, or killed the program that was to start the shim.
const TAKEN_BACK: [&str; 2] = ["context canceled", "failed to start shim: start failed: : signal: killed"];

/// Whether the runtime's record proves that the process of this container never ran: its start was taken back by whoever
/// asked for it, before containerd told the shim to begin the process.
fn never_ran(container: &ContainerStatus) -> bool {
    let began = |at: Timestamp| at > Timestamp::UNIX_EPOCH;
    container.state == ContainerState::Exited
        && (container.reason.as_str(), container.exit_code) == START_ERROR
        && !container.started_at.is_some_and(began)
        && TAKEN_BACK.iter().any(|words| container.message.contains(words))
        // From here on the shim may have begun it all the same.
        && !container.message.starts_with("failed to start containerd task")
        && !container.message.starts_with("failed to update container")
}

/// The pod with what really became of its containers; none where the runtime has told all. `once` says whether its
/// containers must not run again when it is not known whether they ran, `runtime` which run of the runtime answers, and
/// `has_logged` whether a container's log says anything.
pub(super) fn as_it_was(
    observed: &PodStatus,
    asked: &RequestedStarts,
    once: bool,
    runtime: Option<&str>,
    has_logged: impl Fn(&ContainerStatus) -> bool,
) -> Option<PodStatus> {
    let is_lost =
        |c: &ContainerStatus| once && is_unclear(c) && (asked.is_lost(&c.id, runtime) || has_logged(c));
    let was = |container: &ContainerStatus| {
        if never_ran(container) {
            Some(made(container))
        } else if is_lost(container) {
            Some(lost(container))
        } else {
            None
        }
    };
    let seen: Vec<_> = observed.containers.iter().map(was).collect();
    if seen.iter().all(Option::is_none) {
        return None;
    }
    let containers = seen.into_iter().zip(&observed.containers);
    let containers = containers.map(|(was, container)| was.unwrap_or_else(|| container.clone())).collect();
    Some(PodStatus { containers, ..observed.clone() })
}

/// One that was never started. The runtime does not start it again, so it stands for no definition: it is made anew.
fn made(container: &ContainerStatus) -> ContainerStatus {
    ContainerStatus {
        state: ContainerState::Created,
        started_at: None,
        finished_at: None,
        exit_code: 0,
        reason: String::new(),
        message: String::new(),
        hash: None,
        ..container.clone()
    }
}

/// One whose status was lost, in upstream's words.
fn lost(container: &ContainerStatus) -> ContainerStatus {
    ContainerStatus {
        state: ContainerState::Exited,
        exit_code: UNKNOWN_EXIT_CODE,
        reason: "ContainerStatusUnknown".to_owned(),
        message: "The container could not be located when the pod was terminated".to_owned(),
        ..container.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing::{self, exited};
    use crate::types::PodRef;

    const CANCELED: &str = "failed to create containerd task: failed to create shim task: context canceled";

    fn observed(container: ContainerStatus) -> PodStatus {
        PodStatus { containers: vec![container], ..PodStatus::empty(PodRef::new("default", "p", "u")) }
    }

    fn start_error(message: &str) -> ContainerStatus {
        let reason = "StartError".to_owned();
        ContainerStatus {
            reason,
            message: message.to_owned(),
            started_at: None,
            hash: Some(7),
            ..exited("c", 2, 128)
        }
    }

    fn created() -> ContainerStatus {
        testing::container("c", 0, ContainerState::Created)
    }

    /// What is made of the one container, if anything else than the runtime says.
    fn became(container: ContainerStatus, asked: &RequestedStarts, once: bool) -> Option<ContainerStatus> {
        let seen = as_it_was(&observed(container), asked, once, Some("now"), |_| false)?;
        seen.containers.into_iter().next()
    }

    fn asked(runtime: Option<&str>) -> RequestedStarts {
        let mut asked = RequestedStarts::default();
        asked.note(&created().id, runtime.map(str::to_owned), &observed(created()));
        asked
    }

    #[test]
    fn a_start_that_was_taken_back_before_the_process_began_was_none() {
        let killed =
            "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown";
        for (once, message) in [(true, CANCELED), (false, CANCELED), (true, killed)] {
            let was = became(start_error(message), &RequestedStarts::default(), once).unwrap();
            assert_eq!((was.state, was.attempt, was.hash), (ContainerState::Created, 2, None));
        }
    }

    #[test]
    fn every_other_failed_start_is_as_it_is() {
        let ran = ContainerStatus { started_at: Some(Timestamp::now()), ..start_error(CANCELED) };
        let of_its_own = ContainerStatus { reason: "Error".to_owned(), ..start_error(CANCELED) };
        for container in [
            start_error(
                "failed to create containerd task: exec: \"nope\": executable file not found in $PATH",
            ),
            start_error("failed to start containerd task \"x\": context canceled"),
            ran,
            of_its_own,
        ] {
            assert_eq!(became(container.clone(), &RequestedStarts::default(), true), None, "{container:?}");
        }
    }

    #[test]
    fn a_start_that_was_asked_of_an_earlier_run_of_the_runtime_is_lost() {
        for (runtime, is_lost) in [(Some("before"), true), (None, true), (Some("now"), false)] {
            let was = became(created(), &asked(runtime), true);
            assert_eq!(was.is_some(), is_lost, "{runtime:?}");
            let told = was.map(|was| (was.state, was.exit_code, was.reason));
            let unknown = (ContainerState::Exited, 137, "ContainerStatusUnknown".to_owned());
            assert_eq!(told, is_lost.then_some(unknown));
            assert_eq!(became(created(), &asked(runtime), false), None, "what may run again does");
        }
        assert_eq!(became(created(), &RequestedStarts::default(), true), None, "nobody asked");
    }

    #[test]
    fn a_log_proves_that_it_ran() {
        let seen = observed(created());
        let was = |once| as_it_was(&seen, &RequestedStarts::default(), once, None, |_| true);
        assert!(was(true).is_some() && was(false).is_none());
    }

    #[test]
    fn what_was_asked_for_is_forgotten_with_its_container() {
        let mut asked = asked(None);
        let other = ContainerStatus { id: "other".into(), ..created() };
        asked.note(&other.id, None, &observed(other.clone()));
        assert_eq!(asked.0.len(), 1);
        assert!(asked.is_lost(&other.id, Some("now")) && !asked.is_lost(&created().id, Some("now")));
    }
}
