//! The extended resources of a pod that come from a ResourceClaim, which the scheduler made for them (KEP-5004): the node does not count
//! these, as their devices are not its own. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod};

/// The pod without its requests for resources that come from a claim.
pub(super) fn without_claimed(pod: &Pod) -> Cow<'_, Pod> {
    let status = pod.status.as_ref();
    let Some(claim) = status.and_then(|status| status.extended_resource_claim_status.as_ref()) else {
        return Cow::Borrowed(pod);
    };
    let mappings = claim.request_mappings.iter();
    let claimed: BTreeSet<(&str, &str)> =
        mappings.map(|mapping| (mapping.container_name.as_str(), mapping.resource_name.as_str())).collect();
    let mut rest = pod.clone();
    if let Some(spec) = &mut rest.spec {
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        containers.for_each(|container| remove(container, &claimed));
    }
    Cow::Owned(rest)
}

fn remove(container: &mut Container, claimed: &BTreeSet<(&str, &str)>) {
    let name = container.name.clone();
    let Some(resources) = &mut container.resources else { return };
    for list in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
        list.retain(|resource, _| !claimed.contains(&(name.as_str(), resource.as_str())));
    }
}

#[cfg(test)]
mod tests {
    use hostlet_base::Quantity;
    use serde_json::json;

    use crate::Allocation;
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn resources_of_a_claim_are_not_the_nodes() {
        let container = |name: &str| {
            let amounts = json!({"cpu": "1", "example.com/gpu": "2"});
            json!({"name": name, "resources": {"requests": amounts, "limits": amounts}})
        };
        let mapping = json!({"containerName": "a", "requestName": "r", "resourceName": "example.com/gpu"});
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [container("a"), container("b")]},
            "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}},
        }))
        .unwrap();
        let allocated = Allocation::of(&pod).resources;
        assert_eq!(allocated.get("cpu"), Some(Quantity::count(2)));
        assert_eq!(allocated.get("example.com/gpu"), Some(Quantity::count(2)));
    }
}
