//! What really became of containers whose start was cut short. Pure; asks nobody.
//!
//! A daemon or a runtime that is killed in the middle of a start leaves a container of which the runtime's record does not
//! say everything:
//!
//! - a start that was taken back because its caller went away, before the runtime began the process, is recorded as
//!   failed. The process never ran, so the container counts as never started;
//! - a runtime that was killed while it started a container lists it as created, though its process may have run, and
//!   ended. Where the container is to run once, whoever asked for the start says whether its answer was lost.

use jiff::Timestamp;

use crate::cri::{ContainerState, ContainerStatus};
use crate::pleg::PodStatus;

/// Exit code reported of a container nobody saw ending: as if killed (as upstream).
const UNKNOWN_EXIT_CODE: i32 = 137;
/// What containerd records of a container that it could not start.
const START_ERROR: (&str, i32) = ("StartError", 128);

/// Whether the runtime must be asked more before it is clear what became of this container's start.
pub fn is_unclear(container: &ContainerStatus) -> bool {
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

/// The pod with what really became of its containers; none where the runtime has said everything. `is_lost` says of an unclear
/// container whether its start was asked for and the answer lost.
pub fn as_it_was(observed: &PodStatus, is_lost: impl Fn(&ContainerStatus) -> bool) -> Option<PodStatus> {
    let was = |container: &ContainerStatus| {
        if never_ran(container) {
            Some(made(container))
        } else if is_unclear(container) && is_lost(container) {
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
    fn became(container: ContainerStatus, is_lost: bool) -> Option<ContainerStatus> {
        as_it_was(&observed(container), |_| is_lost)?.containers.into_iter().next()
    }

    #[test]
    fn a_start_that_was_taken_back_before_the_process_began_was_none() {
        let killed =
            "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown";
        for (is_lost, message) in [(true, CANCELED), (false, CANCELED), (true, killed)] {
            let was = became(start_error(message), is_lost).unwrap();
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
            assert_eq!(became(container.clone(), true), None, "{container:?}");
        }
    }

    #[test]
    fn a_start_whose_answer_was_lost_ended_with_an_unknown_status() {
        let was = became(created(), true).map(|was| (was.state, was.exit_code, was.reason));
        assert_eq!(was, Some((ContainerState::Exited, 137, "ContainerStatusUnknown".to_owned())));
        assert_eq!(became(created(), false), None);
    }
}
