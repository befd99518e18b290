//! What a pod no longer needs: dead containers and sandboxes, and running containers that its spec does not account for.

use std::collections::HashSet;

use super::input::PlanInput;
use super::kill::Kill;
use hostlet_base::{ContainerId, SandboxId};
use hostlet_observe::pleg::PodStatus;
use hostlet_runtime::cri::{ContainerState, ContainerStatus, SandboxState};

/// Dead containers and sandboxes that are no longer needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::worker) struct Leftovers {
    /// To be removed first.
    pub(in crate::worker) containers: Vec<ContainerId>,
    /// Empty sandboxes, once the containers are removed.
    pub(in crate::worker) sandboxes: Vec<SandboxId>,
}

/// The leftovers of a pod. Of each container one dead instance is kept, for its exit code and log; of the sandboxes the newest
/// and those that still hold a container. The created containers in `needed` are about to be started or replaced.
pub(in crate::worker) fn leftovers(observed: &PodStatus, needed: &[&ContainerId]) -> Leftovers {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut containers = Vec::new();
    for container in &observed.containers {
        let is_left = match container.state {
            ContainerState::Running | ContainerState::Unknown => false,
            // Never ran: it has no exit code and no log worth keeping.
            ContainerState::Created => !needed.contains(&&container.id),
            ContainerState::Exited => !seen.insert(&container.name),
        };
        if is_left {
            containers.push(container.id.clone());
        }
    }
    let holds_container = |id: &SandboxId| {
        observed.containers.iter().any(|c| c.sandbox.as_ref() == Some(id) && !containers.contains(&c.id))
    };
    let older = observed.sandboxes.iter().skip(1);
    let empty = older.filter(|s| s.state == SandboxState::NotReady && !holds_container(&s.id));
    let sandboxes = empty.map(|s| s.id.clone()).collect();
    Leftovers { containers, sandboxes }
}

/// Running containers that the spec does not account for: of a name that is in none of its lists, or older instances than the
/// newest.
pub(super) fn strays(input: &PlanInput<'_>) -> Vec<Kill> {
    let observed = input.observed;
    let is_newest = |c: &ContainerStatus| observed.container(&c.name).is_some_and(|n| n.id == c.id);
    let is_named = |c: &ContainerStatus| input.pod.kind_of(&c.name).is_some();
    let runs = |c: &ContainerStatus| match c.state {
        ContainerState::Running | ContainerState::Unknown => true,
        ContainerState::Created | ContainerState::Exited => false,
    };
    let strays = observed.containers.iter().filter(|c| runs(c) && !(is_named(c) && is_newest(c)));
    let message = |c: &ContainerStatus| format!("Container {} is not wanted in the pod", c.name);
    strays.map(|c| input.kill(c, message(c), None)).collect()
}
