//! How many CPUs containers and pods have for themselves: whole numbers of guaranteed pods.

use hostlet_base::Quantity;
use hostlet_base::resources::CPU;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use crate::containers::{
    has_own_resources, init_containers, is_guaranteed, is_guaranteed_alone, is_sidecar, main_containers,
};
use crate::error::GrantError;

/// How many CPUs a container has for itself; 0 if it shares. `pod_level` is the feature gate `PodLevelResourceManagers`.
pub(super) fn container_cpus(pod: &Pod, container: &Container, pod_level: bool) -> usize {
    let shares = pod_level && has_own_resources(pod) && !is_guaranteed_alone(container);
    if shares || !is_guaranteed(pod) { 0 } else { whole_cpus(container.resources.as_ref()) }
}

/// Whether a container of a pod with CPUs of its own has some of them for itself (upstream `resourcesQualifyForExclusiveCPUs`).
pub(super) fn qualifies_alone(container: &Container) -> bool {
    is_guaranteed_alone(container) && whole_cpus(container.resources.as_ref()) > 0
}

/// How many CPUs a pod needs at once.
pub(super) fn pod_cpus(pod: &Pod, pod_level: bool) -> usize {
    if pod_level && has_own_resources(pod) {
        return if is_guaranteed(pod) { whole_cpus(PodView::from(pod).spec.resources.as_ref()) } else { 0 };
    }
    let (mut sidecars, mut peak) = (0, 0);
    for container in init_containers(pod) {
        let own = container_cpus(pod, container, pod_level);
        if is_sidecar(container) {
            sidecars += own;
        } else {
            peak = peak.max(sidecars + own);
        }
    }
    let main: usize =
        main_containers(pod).iter().map(|container| container_cpus(pod, container, pod_level)).sum();
    peak.max(main + sidecars)
}

/// Whether a pod with CPUs of its own leaves some to those of its containers that share them.
pub(super) fn check_shared(pod: &Pod) -> Result<(), GrantError> {
    let all = pod_cpus(pod, true);
    let (mut shares, mut taken) = (false, 0);
    for container in init_containers(pod) {
        let own = container_cpus(pod, container, true);
        if is_sidecar(container) {
            shares |= own == 0;
            taken += own;
        } else if own == 0 && taken >= all {
            return Err(GrantError::NothingForInitContainers("cpus".to_owned()));
        }
    }
    for container in main_containers(pod) {
        let own = container_cpus(pod, container, true);
        shares |= own == 0;
        taken += own;
    }
    if shares && taken >= all { Err(GrantError::NoSharedCpus) } else { Ok(()) }
}

fn whole_cpus(resources: Option<&ResourceRequirements>) -> usize {
    let requested = resources.and_then(|resources| resources.requests.as_ref()?.get(CPU));
    let Some(requested) = requested.and_then(|requested| Quantity::parse(&requested.0).ok()) else {
        return 0;
    };
    let value = requested.value();
    if value.saturating_mul(1000) == requested.milli_value() {
        usize::try_from(value).unwrap_or_default()
    } else {
        0
    }
}
