//! Metrics of what runs, read from the cache. The names are upstream's.

use std::sync::Arc;

use hostlet_runtime::cri::{ContainerState, SandboxState};
use hostlet_telemetry::Metrics;

use super::{Cache, PodStatus};

const STATES: [(ContainerState, &str); 4] = [
    (ContainerState::Created, "created"),
    (ContainerState::Running, "running"),
    (ContainerState::Exited, "exited"),
    (ContainerState::Unknown, "unknown"),
];

/// Registers the numbers of pods with a sandbox that runs, and of containers by state.
pub(super) fn register(metrics: &Metrics, cache: &Cache) {
    let of = cache.clone();
    let help = "Number of pods that have a running pod sandbox.";
    metrics.register_gauge("kubelet_running_pods", help, move || {
        let all = of.last_known();
        let runs =
            |pod: &&Arc<PodStatus>| pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        vec![(Vec::new(), all.iter().filter(runs).count() as u64)]
    });
    let of = cache.clone();
    let help = "Number of containers currently running.";
    metrics.register_gauge("kubelet_running_containers", help, move || {
        let all = of.last_known();
        let of_state = |state: ContainerState| {
            let containers = all.iter().flat_map(|pod| &pod.containers);
            containers.filter(|container| container.state == state).count() as u64
        };
        let reading = |(state, name): (ContainerState, &str)| {
            (vec![("container_state", name.to_owned())], of_state(state))
        };
        STATES.map(reading).to_vec()
    });
}
