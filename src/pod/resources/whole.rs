//! The resources of a pod as a whole, as its status reports them: the sums over its containers, of every resource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::amounts::together;
use crate::types::ResourceList;

/// What all containers of the pod request and are limited to. A stock kubelet reports the limits of the pod's cgroup in
/// place of these once it has read them, so a number that means none on version 1; these are what was asked for.
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

    fn told(containers: Value) -> Value {
        serde_json::to_value(whole_resources(&pod(json!({"containers": containers})))).unwrap()
    }

    #[test]
    fn every_resource_of_every_container_counts() {
        let first = json!({"requests": {"cpu": "100m", "memory": "32Mi", "ephemeral-storage": "10Mi"}, "limits": {"cpu": "250m"}});
        let second = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "64Mi"}});
        assert_eq!(
            told(
                json!([{"name": "a", "resources": first}, {"name": "b", "resources": second}, {"name": "c"}])
            ),
            json!({
                "requests": {"cpu": "1100m", "memory": "32Mi", "ephemeral-storage": "10Mi"},
                "limits": {"cpu": "2250m", "memory": "64Mi"}
            })
        );
        assert_eq!(told(json!([{"name": "a"}])), json!({}));
    }
}
