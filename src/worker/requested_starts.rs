//! Requested starts of containers that must run at most once. Pure; persists nothing itself.
//!
//! A runtime that is killed while it starts a container lists it as created afterwards, though its process may have run and
//! exited. Such a container must not be started again. So a start is recorded before it is requested, with the instance of
//! the runtime: while that is the same, no answer was lost.

use serde::{Deserialize, Serialize};

use crate::pleg::PodStatus;
use crate::types::ContainerId;

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
    /// Records that this instance of the runtime is about to be requested to start a container; forgets removed containers.
    pub(super) fn note(&mut self, id: &ContainerId, runtime: Option<String>, observed: &PodStatus) {
        let is_there =
            |asked: &RequestedStart| observed.containers.iter().any(|c| c.id.as_str() == asked.container);
        self.0.retain(|asked| is_there(asked) && asked.container != id.as_str());
        self.0.push(RequestedStart { container: id.to_string(), runtime });
    }

    /// Whether the start of a container was requested of another instance of the runtime than this one.
    pub(super) fn is_lost(&self, id: &ContainerId, runtime: Option<&str>) -> bool {
        let asked = self.0.iter().find(|asked| asked.container == id.as_str());
        asked.is_some_and(|asked| runtime.is_none() || asked.runtime.as_deref() != runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::{ContainerState, ContainerStatus};
    use crate::pod::testing;
    use crate::types::PodRef;

    fn observed(container: ContainerStatus) -> PodStatus {
        PodStatus { containers: vec![container], ..PodStatus::empty(PodRef::new("default", "p", "u")) }
    }

    fn created() -> ContainerStatus {
        testing::container("c", 0, ContainerState::Created)
    }

    fn asked(runtime: Option<&str>) -> RequestedStarts {
        let mut asked = RequestedStarts::default();
        asked.note(&created().id, runtime.map(str::to_owned), &observed(created()));
        asked
    }

    #[test]
    fn a_start_that_was_asked_of_an_earlier_run_of_the_runtime_is_lost() {
        for (runtime, is_lost) in [(Some("before"), true), (None, true), (Some("now"), false)] {
            assert_eq!(asked(runtime).is_lost(&created().id, Some("now")), is_lost, "{runtime:?}");
        }
        assert!(!RequestedStarts::default().is_lost(&created().id, Some("now")), "nobody asked");
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
