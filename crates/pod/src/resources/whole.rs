//! The resources of a pod in its status: pod-level ones, else the sums over its containers, with the overhead.

use hostlet_base::ResourceList;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use super::requests::{limited_resources, requested_resources};

/// The requests and limits of the pod, of every resource. The stock kubelet instead reports the limits of the pod's cgroup
/// once it has read them, which on cgroup v1 includes a number that means "no limit".
pub fn whole_resources(pod: &Pod) -> ResourceRequirements {
    let written = |list: ResourceList| (!list.is_empty()).then(|| list.written());
    ResourceRequirements {
        limits: written(limited_resources(pod)),
        requests: written(requested_resources(pod)),
        claims: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::testing::pod;

    fn resources(containers: Value) -> Value {
        serde_json::to_value(whole_resources(&pod(json!({"containers": containers})))).unwrap()
    }

    #[test]
    fn every_resource_of_every_container_counts() {
        let first = json!({"requests": {"cpu": "100m", "memory": "32Mi", "ephemeral-storage": "10Mi"}, "limits": {"cpu": "250m"}});
        let second = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "64Mi"}});
        assert_eq!(
            resources(
                json!([{"name": "a", "resources": first}, {"name": "b", "resources": second}, {"name": "c"}])
            ),
            json!({
                "requests": {"cpu": "1100m", "memory": "32Mi", "ephemeral-storage": "10Mi"},
                "limits": {"cpu": "2250m", "memory": "64Mi"}
            })
        );
        assert_eq!(resources(json!([{"name": "a"}])), json!({}));
    }

    #[test]
    fn resources_of_the_pod_replace_the_containers_and_overhead_adds_to_limits() {
        let container =
            json!({"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Mi"}}});
        let pod = pod(json!({
            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
            "overhead": {"cpu": "250m", "memory": "1Mi"},
            "containers": [container, {"name": "b"}],
        }));
        assert_eq!(
            serde_json::to_value(whole_resources(&pod)).unwrap(),
            json!({"requests": {"cpu": "2250m", "memory": "1Mi"}, "limits": {"cpu": "3250m", "memory": "2Mi"}})
        );
    }
}
