//! The resources of a pod in its status: the sums over its containers, for every resource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::amounts::together;
use crate::types::ResourceList;

/// The combined requests and limits of the pod's containers. The stock kubelet instead reports the limits of the pod's cgroup
/// once it has read them, which on cgroup v1 includes a number that means "no limit".
pub fn whole_resources(pod: &Pod) -> ResourceRequirements {
    let of_lists = |list: fn(&ResourceRequirements) -> Option<&BTreeMap<String, ApiQuantity>>| {
        let sums = together(
            pod,
            |container| ResourceList::read(container.resources.as_ref().and_then(list)),
            |_: &ResourceList| {},
        );
        (!sums.is_empty()).then(|| sums.written())
    };
    ResourceRequirements {
        limits: of_lists(|resources| resources.limits.as_ref()),
        requests: of_lists(|resources| resources.requests.as_ref()),
        claims: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::resources::testing::pod;

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
}
