//! What a pod's containers request of extended resources. Pure; does not know which of them are devices.

use std::collections::BTreeMap;

use hostlet_base::resources::is_extended;
use hostlet_base::{PodUid, ResourceList};
use hostlet_pod::view::PodView;
use hostlet_pod::{ContainerKind, PodContainer, pod_uid};
use k8s_openapi::api::core::v1::Pod;

/// A pod's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRequests {
    pub(crate) uid: PodUid,
    /// In the order in which they are allocated: init containers first.
    pub(crate) containers: Vec<ContainerRequests>,
}

/// A container's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRequests {
    pub(crate) name: String,
    pub(crate) kind: ContainerKind,
    /// The number of each resource, above zero.
    pub(crate) amounts: BTreeMap<String, usize>,
}

impl PodRequests {
    /// The requests of a pod. Limits, which equal requests for extended resources. What DRA allocated in place of a device plugin
    /// (`status.extendedResourceClaimStatus`) is none of them.
    pub(crate) fn of(pod: &Pod) -> Self {
        let view = PodView::from(pod);
        let init = view.init_containers().iter().map(PodContainer::init);
        let containers = init.chain(view.spec.containers.iter().map(PodContainer::main));
        let containers = containers.map(|container| ContainerRequests {
            name: container.spec.name.clone(),
            kind: container.kind,
            amounts: amounts(pod, container),
        });
        Self { uid: pod_uid(pod), containers: containers.collect() }
    }

    /// The requests of the container of this name.
    pub(crate) fn container(&self, name: &str) -> Option<&ContainerRequests> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// All resources of which something is requested, each once for each container.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().flat_map(|container| container.amounts.keys()).map(String::as_str)
    }

    /// How many devices of each resource the pod needs at once: init containers run one after the other, beside the sidecars that
    /// started before them (upstream `PodLimits`).
    pub(crate) fn together(&self) -> BTreeMap<String, usize> {
        let (mut sidecars, mut init) = (BTreeMap::new(), BTreeMap::<String, usize>::new());
        let mut main: BTreeMap<String, usize> = BTreeMap::new();
        for container in &self.containers {
            for (resource, count) in &container.amounts {
                let beside: usize = sidecars.get(resource).copied().unwrap_or_default();
                match container.kind {
                    ContainerKind::Sidecar => {
                        sidecars.insert(resource.clone(), beside + count);
                    }
                    ContainerKind::Init => {
                        let most = init.entry(resource.clone()).or_default();
                        *most = (*most).max(beside + count);
                    }
                    ContainerKind::Main => *main.entry(resource.clone()).or_default() += count,
                    ContainerKind::Ephemeral => {}
                }
            }
        }
        for (resource, count) in sidecars {
            *main.entry(resource).or_default() += count;
        }
        for (resource, count) in init {
            let most = main.entry(resource).or_default();
            *most = (*most).max(count);
        }
        main
    }
}

fn amounts(pod: &Pod, container: PodContainer<'_>) -> BTreeMap<String, usize> {
    let limits = container.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limits = ResourceList::read(limits);
    let counted = limits.iter().filter_map(|(resource, amount)| {
        let count = usize::try_from(amount.value()).ok().filter(|count| *count > 0)?;
        let is_device = is_extended(resource) && !is_claimed(pod, &container.spec.name, resource);
        is_device.then(|| (resource.to_owned(), count))
    });
    counted.collect()
}

/// Whether DRA allocated this resource for this container (upstream `isDRAExtendedResource`).
fn is_claimed(pod: &Pod, container: &str, resource: &str) -> bool {
    let claim = pod.status.as_ref().and_then(|status| status.extended_resource_claim_status.as_ref());
    claim.is_some_and(|claim| {
        let mut mappings = claim.request_mappings.iter();
        mappings.any(|mapping| mapping.container_name == container && mapping.resource_name == resource)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requests(pod: serde_json::Value) -> PodRequests {
        PodRequests::of(&serde_json::from_value(pod).unwrap())
    }

    fn container(name: &str, gpus: &str) -> serde_json::Value {
        json!({"name": name, "resources": {"limits": {"example.com/gpu": gpus, "cpu": "1", "example.com/none": "0"}}})
    }

    #[test]
    fn extended_resources_of_init_containers_come_first_and_are_not_added_up() {
        let mut sidecar = container("sidecar", "1");
        sidecar["restartPolicy"] = json!("Always");
        let pod = requests(json!({
            "metadata": {"uid": "u1"},
            "spec": {
                "initContainers": [container("first", "4"), sidecar, container("second", "4")],
                "containers": [container("a", "1"), container("b", "2")],
            },
        }));
        let names: Vec<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["first", "sidecar", "second", "a", "b"]);
        assert_eq!(pod.container("b").unwrap().amounts, [("example.com/gpu".to_owned(), 2)].into());
        assert_eq!(pod.together(), [("example.com/gpu".to_owned(), 5)].into());
    }

    #[test]
    fn what_dra_allocated_is_no_device_of_a_plugin() {
        let pod = requests(json!({
            "metadata": {"uid": "u1"},
            "spec": {"containers": [container("a", "1"), container("b", "2")]},
            "status": {"extendedResourceClaimStatus": {
                "resourceClaimName": "c",
                "requestMappings": [{"containerName": "a", "resourceName": "example.com/gpu", "requestName": "r"}],
            }},
        }));
        assert!(pod.container("a").unwrap().amounts.is_empty());
        assert_eq!(pod.resources().collect::<Vec<_>>(), ["example.com/gpu"]);
    }
}
