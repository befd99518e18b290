//! Requested starts of containers that must run at most once. Pure; persists nothing itself.
//!
//! A runtime that is killed while it starts a container lists it as created afterwards, though its process may have run and
//! exited. Such a container must not be started again. So a start is recorded before it is requested, with the instance of
//! the runtime: while the instance is the same, no response was lost.

use serde::{Deserialize, Serialize};

use hostlet_base::ContainerId;
use hostlet_observe::pleg::PodStatus;

/// The requested starts of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RequestedStarts(Vec<RequestedStart>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RequestedStart {
    container: String,
    /// The instance of the runtime, if it could be identified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
}

impl RequestedStarts {
    /// Records that a start is about to be requested from this instance of the runtime; forgets removed containers.
    pub(super) fn record(&mut self, id: &ContainerId, runtime: Option<String>, observed: &PodStatus) {
        let exists =
            |start: &RequestedStart| observed.containers.iter().any(|c| c.id.as_str() == start.container);
        self.0.retain(|start| exists(start) && start.container != id.as_str());
        self.0.push(RequestedStart { container: id.to_string(), runtime });
    }

    /// Whether the start of a container was requested from another instance of the runtime than this one.
    pub(super) fn is_lost(&self, id: &ContainerId, runtime: Option<&str>) -> bool {
        let start = self.0.iter().find(|start| start.container == id.as_str());
        start.is_some_and(|start| runtime.is_none() || start.runtime.as_deref() != runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::PodRef;
    use hostlet_pod::testing;
    use hostlet_runtime::cri::{ContainerState, ContainerStatus};

    fn observed(container: ContainerStatus) -> PodStatus {
        PodStatus { containers: vec![container], ..PodStatus::empty(PodRef::new("default", "p", "u")) }
    }

    fn created() -> ContainerStatus {
        testing::container("c", 0, ContainerState::Created)
    }

    fn requested(runtime: Option<&str>) -> RequestedStarts {
        let mut requested = RequestedStarts::default();
        requested.record(&created().id, runtime.map(str::to_owned), &observed(created()));
        requested
    }

    #[test]
    fn a_start_requested_from_an_earlier_instance_of_the_runtime_is_lost() {
        for (runtime, is_lost) in [(Some("before"), true), (None, true), (Some("now"), false)] {
            assert_eq!(requested(runtime).is_lost(&created().id, Some("now")), is_lost, "{runtime:?}");
        }
        assert!(!RequestedStarts::default().is_lost(&created().id, Some("now")), "nothing was requested");
    }

    #[test]
    fn a_requested_start_is_forgotten_with_its_container() {
        let mut requested = requested(None);
        let other = ContainerStatus { id: "other".into(), ..created() };
        requested.record(&other.id, None, &observed(other.clone()));
        assert_eq!(requested.0.len(), 1);
        assert!(requested.is_lost(&other.id, Some("now")) && !requested.is_lost(&created().id, Some("now")));
    }
}
