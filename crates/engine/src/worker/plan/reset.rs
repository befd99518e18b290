//! Starts all containers of a pod again in its sandbox, after one exited with a code for which its rules say so (KEP-5532).
//! The instance whose exit demands it is removed last: until then, every plan demands the same.

use hostlet_pod::{ContainerKind, demands_restart_of_all};
use hostlet_runtime::cri::{ContainerState, ContainerStatus};

use super::actions::Reset;
use super::input::PlanInput;

/// The instances to remove, in order; none if no exit demands it. Main containers come before init containers, and both before
/// the instances whose exit demands it.
pub(super) fn resets(input: &PlanInput<'_>) -> Vec<Reset> {
    let demands = |status: &ContainerStatus| {
        let container = input.pod.containers().find(|container| *container.spec.name == *status.name);
        status.state == ContainerState::Exited
            && container.is_some_and(|container| demands_restart_of_all(container.spec, status.exit_code))
    };
    let newest = |name: &str| input.observed.container(name);
    if !input.pod.containers().any(|container| newest(&container.spec.name).is_some_and(demands)) {
        return Vec::new();
    }
    let rank = |status: &ContainerStatus| {
        let mut named = input.pod.containers().enumerate();
        let (index, container) = named.find(|(_, container)| *container.spec.name == *status.name)?;
        Some((demands(status), container.kind != ContainerKind::Main, index))
    };
    let mut ranked: Vec<_> =
        input.observed.containers.iter().filter_map(|status| Some((rank(status)?, status))).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let reset = |(_, status): (_, &ContainerStatus)| Reset {
        id: status.id.clone(),
        name: status.name.to_string(),
        stop: match status.state {
            ContainerState::Running | ContainerState::Unknown => true,
            ContainerState::Created | ContainerState::Exited => false,
        },
    };
    ranked.into_iter().map(reset).collect()
}
