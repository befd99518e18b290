//! The requests and limits of a pod by resource name, as the scheduler and admission count them.

use std::collections::BTreeMap;

use hostlet_base::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY};
use hostlet_base::{Quantity, ResourceList};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::amounts::{Together, together};
use crate::view::PodView;

impl Together for ResourceList {
    fn plus(self, other: Self) -> Self {
        Self::plus(self, other)
    }

    fn max(self, other: Self) -> Self {
        Self::max(self, other)
    }
}

/// The pod's requests: the combined requests of its containers, replaced by pod-level ones where these are supported, plus overhead
/// (upstream `PodRequests` of k8s.io/component-helpers).
pub fn requested_resources(pod: &Pod) -> ResourceList {
    let spec = PodView::from(pod).spec;
    let of_containers = together(
        pod,
        |container| ResourceList::read(container.resources.as_ref().and_then(|own| own.requests.as_ref())),
        |_| {},
    );
    let of_pod = of_whole_pod(spec.resources.as_ref().and_then(|own| own.requests.as_ref()));
    of_containers.overlaid(of_pod).plus(ResourceList::read(spec.overhead.as_ref()))
}

/// The pod's limits, likewise. Overhead is added only to what is limited (upstream `PodLimits`).
pub(crate) fn limited_resources(pod: &Pod) -> ResourceList {
    let spec = PodView::from(pod).spec;
    let of_containers = together(
        pod,
        |container| ResourceList::read(container.resources.as_ref().and_then(|own| own.limits.as_ref())),
        |_| {},
    );
    let of_pod = of_whole_pod(spec.resources.as_ref().and_then(|own| own.limits.as_ref()));
    let limits = of_containers.overlaid(of_pod);
    let overhead = ResourceList::read(spec.overhead.as_ref());
    let overhead = overhead.only(|name| limits.get(name).is_some_and(|limit| limit.milli_value() > 0));
    limits.plus(overhead)
}

/// The limit of a pod's local storage; `None` if no container has one.
pub fn limited_storage(pod: &Pod) -> Option<Quantity> {
    limited_resources(pod).get(EPHEMERAL_STORAGE)
}

/// The pod-level amounts of the resources for which there are such (KEP-2837).
fn of_whole_pod(list: Option<&BTreeMap<String, ApiQuantity>>) -> ResourceList {
    ResourceList::read(list).only(|name| matches!(name, CPU | MEMORY) || name.starts_with(HUGE_PAGES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::testing::pod;
    use hostlet_base::testing::resource_list;

    #[test]
    fn every_resource_is_combined_over_containers() {
        let requests = |requests: serde_json::Value| json!({"requests": requests});
        let pod = pod(json!({
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": requests(json!({"cpu": "200m", "example.com/gpu": "1"}))},
                {"name": "init", "resources": requests(json!({"example.com/gpu": "2", "ephemeral-storage": "1Gi"}))},
            ],
            "containers": [
                {"name": "a", "resources": requests(json!({"cpu": "500m", "hugepages-2Mi": "4Mi"}))},
                {"name": "b", "resources": requests(json!({"example.com/gpu": "1", "ephemeral-storage": "1Mi"}))},
            ],
        }));
        let expected = [
            ("cpu", "700m"),
            ("ephemeral-storage", "1Gi"),
            ("example.com/gpu", "3"),
            ("hugepages-2Mi", "4Mi"),
        ];
        assert_eq!(requested_resources(&pod), resource_list(expected));
    }

    #[test]
    fn pod_level_requests_replace_the_containers_and_overhead_is_added() {
        let pod = pod(json!({
            "resources": {"requests": {"cpu": "2", "hugepages-2Mi": "8Mi", "example.com/gpu": "9"}},
            "overhead": {"cpu": "250m", "memory": "1Mi"},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Mi", "example.com/gpu": "1"}}}],
        }));
        let expected =
            [("cpu", "2250m"), ("example.com/gpu", "1"), ("hugepages-2Mi", "8Mi"), ("memory", "2Mi")];
        assert_eq!(requested_resources(&pod), resource_list(expected));
    }

    #[test]
    fn a_pod_may_use_the_storage_of_its_containers_together() {
        let limit = |amount: &str| json!({"limits": {"ephemeral-storage": amount}});
        let mut spec = json!({
            "initContainers": [{"name": "init", "resources": limit("2Gi")}],
            "containers": [{"name": "a", "resources": limit("1Gi")}, {"name": "b", "resources": limit("512Mi")}, {"name": "c"}],
        });
        let text =
            |spec: &serde_json::Value| limited_storage(&pod(spec.clone())).map(|limit| limit.to_string());
        assert_eq!(text(&spec).as_deref(), Some("2Gi"));
        spec["overhead"] = json!({"ephemeral-storage": "1Mi"});
        assert_eq!(text(&spec).as_deref(), Some("2049Mi"));
        assert_eq!(text(&json!({"containers": [{"name": "a"}]})), None);
        let none = json!({"containers": [{"name": "a", "resources": limit("0")}], "overhead": {"ephemeral-storage": "1Mi"}});
        assert_eq!(text(&none).as_deref(), Some("0"));
    }
}
