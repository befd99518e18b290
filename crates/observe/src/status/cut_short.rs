//! Determines the actual outcome of interrupted container starts. Pure.
//!
//! If a daemon or a runtime is killed during a start, the runtime's record of the container is incomplete:
//!
//! - a start that was cancelled because its caller disconnected, before the process ran, is recorded as failed. The process
//!   never ran, so the container counts as never started;
//! - a runtime that was killed during a start lists the container as created, although its process may have run and exited.
//!   For a container that must run only once, the record of requested starts shows whether a response was lost.

use hostlet_base::reasons;
use hostlet_runtime::cri::{ContainerState, ContainerStatus};
use jiff::Timestamp;

use super::containers::NOT_LOCATED;
use crate::pleg::PodStatus;

/// Exit code reported for a container with an unknown exit: as if killed (as upstream).
const UNKNOWN_EXIT_CODE: i32 = 137;
/// containerd's reason for a container that it could not start.
const START_ERROR: (&str, i32) = (reasons::START_ERROR, 128);

/// Whether the container must be inspected to determine the outcome of its start.
pub fn is_unclear(container: &ContainerStatus) -> bool {
    container.state == ContainerState::Created
}

/// containerd's messages for a caller that disconnected: it cancelled its work, or killed the helper that starts the shim.
const CANCELLED_START: [&str; 2] =
    ["context canceled", "failed to start shim: start failed: : signal: killed"];

/// Whether the runtime's record proves that the container's process never ran: its start was cancelled before containerd
/// requested the process from the shim.
fn never_ran(container: &ContainerStatus) -> bool {
    let began = |at: Timestamp| at > Timestamp::UNIX_EPOCH;
    container.state == ContainerState::Exited
        && (container.reason.as_str(), container.exit_code) == START_ERROR
        && !container.started_at.is_some_and(began)
        && CANCELLED_START.iter().any(|words| container.message.contains(words))
        // After these steps the shim may have started it nevertheless.
        && !container.message.starts_with("failed to start containerd task")
        && !container.message.starts_with("failed to update container")
}

/// The pod with the actual outcomes of its containers; `None` if the runtime's record is complete. `is_lost` says whether the
/// response to a container's start was lost.
pub fn with_actual_outcomes(
    observed: &PodStatus,
    is_lost: impl Fn(&ContainerStatus) -> bool,
) -> Option<PodStatus> {
    let was = |container: &ContainerStatus| {
        if never_ran(container) {
            Some(never_started(container))
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

/// A container that was never started. The runtime cannot start it again, so it matches no definition and is recreated.
fn never_started(container: &ContainerStatus) -> ContainerStatus {
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

/// A container with an unknown status, with upstream's reason and message.
fn lost(container: &ContainerStatus) -> ContainerStatus {
    ContainerStatus {
        state: ContainerState::Exited,
        exit_code: UNKNOWN_EXIT_CODE,
        reason: reasons::CONTAINER_STATUS_UNKNOWN.to_owned(),
        message: NOT_LOCATED.to_owned(),
        ..container.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::PodRef;
    use hostlet_pod::testing::{self, exited};

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

    /// The corrected container, if it differs from the runtime's record.
    fn became(container: ContainerStatus, is_lost: bool) -> Option<ContainerStatus> {
        with_actual_outcomes(&observed(container), |_| is_lost)?.containers.into_iter().next()
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
