//! The containers of a pod, as the managers of CPUs and memory see them.

use hostlet_base::resources::{CPU, HUGE_PAGES, MEMORY};
use hostlet_base::{QosClass, Quantity};
use hostlet_pod::resources::qos_class;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

/// Restart policy of sidecars.
const ALWAYS: &str = "Always";

/// All containers in the order in which they start.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    init_containers(pod).iter().chain(main_containers(pod))
}

/// The init containers, sidecars among them.
pub(crate) fn init_containers(pod: &Pod) -> &[Container] {
    PodView::from(pod).init_containers()
}

/// The containers that are not init containers.
pub(crate) fn main_containers(pod: &Pod) -> &[Container] {
    &PodView::from(pod).spec.containers
}

/// Whether an init container runs as long as its pod.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some(ALWAYS)
}

/// Whether the named container is an init container that ends before others start.
pub(crate) fn ends_first(pod: &Pod, name: &str) -> bool {
    init_containers(pod).iter().any(|container| container.name == name && !is_sidecar(container))
}

pub(crate) fn is_guaranteed(pod: &Pod) -> bool {
    qos_class(pod) == QosClass::Guaranteed
}

/// Whether the pod as a whole has CPU, memory or huge pages (upstream `IsPodLevelResourcesSet`).
pub(crate) fn has_own_resources(pod: &Pod) -> bool {
    let Some(own) = &PodView::from(pod).spec.resources else { return false };
    let names = [&own.requests, &own.limits].into_iter().flatten().flat_map(|list| list.keys());
    let mut names = names.map(String::as_str);
    names.any(|name| name == CPU || is_memory(name))
}

/// Whether a resource is memory or huge pages.
pub(crate) fn is_memory(resource: &str) -> bool {
    resource == MEMORY || resource.starts_with(HUGE_PAGES)
}

/// Whether the requests of a container are its limits, as in a guaranteed pod (upstream `IsContainerEquivalentQOSGuaranteed`).
pub(crate) fn is_guaranteed_alone(container: &Container) -> bool {
    let Some(resources) = &container.resources else { return false };
    let amount = |list: &Option<std::collections::BTreeMap<String, _>>, name: &str| {
        let amount: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> =
            list.as_ref()?.get(name);
        Quantity::parse(&amount?.0).ok()
    };
    [CPU, MEMORY].into_iter().all(|name| {
        let (request, limit) = (amount(&resources.requests, name), amount(&resources.limits, name));
        request.is_some_and(|request| request != Quantity::count(0)) && request == limit
    })
}
