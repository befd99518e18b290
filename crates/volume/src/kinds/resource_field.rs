//! Requests and limits of a container for the downward API, in files and in the environment. Pure.

use std::collections::BTreeMap;

use hostlet_base::Quantity;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::error::ContentError;
use crate::model::NodeAmounts;

/// The amount that `field` selects from `container`, divided by its divisor and rounded up. An unset limit is the pod's, else the node's
/// allocatable amount.
pub fn resource_value(
    spec: &PodSpec,
    container: &Container,
    field: &ResourceFieldSelector,
    node: &NodeAmounts,
) -> Result<String, ContentError> {
    let unsupported = || ContentError::Resource(field.resource.clone());
    let (list, resource) = field.resource.split_once('.').ok_or_else(unsupported)?;
    let resources = container.resources.as_ref();
    let (amounts, default) = match list {
        "limits" => (resources.and_then(|r| r.limits.as_ref()), node_amount(resource, node)),
        "requests" => (resources.and_then(|r| r.requests.as_ref()), Some(0)),
        _ => return Err(unsupported()),
    };
    let known =
        matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if !known {
        return Err(unsupported());
    }
    // CPU is counted in thousandths, so that a divisor may be a fraction of a core.
    let count = |quantity: &Quantity| match resource {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    };
    let parse = |quantity: &ApiQuantity| Quantity::parse(&quantity.0).map_err(|_| unsupported());
    let whole = spec.resources.as_ref().and_then(|whole| whole.limits.as_ref());
    let whole = amount(whole, resource).filter(|_| list == "limits" && matches!(resource, "cpu" | "memory"));
    let whole = whole.map(parse).transpose()?.map(|amount| count(&amount)).filter(|amount| *amount != 0);
    let amount = match amount(amounts, resource).map(parse).transpose()?.map(|amount| count(&amount)) {
        Some(amount) if amount != 0 => amount,
        Some(_) | None => whole.or(default).unwrap_or(0),
    };
    let divisor = field.divisor.as_ref().map(parse).transpose()?.map(|divisor| count(&divisor));
    let one = if resource == "cpu" { 1_000 } else { 1 };
    let divisor = divisor.filter(|divisor| *divisor > 0).unwrap_or(one);
    let up = i64::from(amount % divisor > 0);
    Ok((amount / divisor + up).to_string())
}

fn amount<'a>(amounts: Option<&'a BTreeMap<String, ApiQuantity>>, resource: &str) -> Option<&'a ApiQuantity> {
    amounts?.get(resource)
}

fn node_amount(resource: &str, node: &NodeAmounts) -> Option<i64> {
    match resource {
        "cpu" => Some(node.milli_cpu),
        "memory" => Some(node.memory),
        "ephemeral-storage" => Some(node.ephemeral_storage),
        _ => None,
    }
}

/// The container that a field names. As upstream, an ephemeral container cannot be named.
pub fn container_named<'a>(spec: &'a PodSpec, name: &str) -> Result<&'a Container, ContentError> {
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    all.find(|container| container.name == name).ok_or_else(|| ContentError::Container(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::testing::{NODE, Pod as TestPod};

    fn of(resource: &str, divisor: Option<&str>) -> Result<String, String> {
        let resources: Value = json!({
            "requests": {"cpu": "250m", "memory": "32Mi", "hugepages-2Mi": "4Mi"},
            "limits": {"cpu": "1500m", "memory": "64Mi"}
        });
        let pod = TestPod::new(json!({"containers": [{"name": "c", "resources": resources}, {"name": "d"}]}));
        let field: ResourceFieldSelector =
            serde_json::from_value(json!({"resource": resource, "divisor": divisor.unwrap_or("0")})).unwrap();
        let spec = pod.pod.spec.as_ref().unwrap();
        resource_value(spec, &spec.containers[0], &field, &NODE).map_err(|error| error.to_string())
    }

    #[test]
    fn amounts_are_rounded_up_to_units_of_the_divisor() {
        for (resource, divisor, value) in [
            ("limits.cpu", None, "2"),
            ("limits.cpu", Some("1m"), "1500"),
            ("requests.cpu", None, "1"),
            ("requests.cpu", Some("1m"), "250"),
            ("limits.memory", None, "67108864"),
            ("limits.memory", Some("1Mi"), "64"),
            ("requests.memory", Some("1Gi"), "1"),
            ("requests.hugepages-2Mi", Some("1Mi"), "4"),
            ("limits.hugepages-2Mi", None, "0"),
            ("requests.ephemeral-storage", None, "0"),
        ] {
            assert_eq!(of(resource, divisor).unwrap(), value, "{resource} {divisor:?}");
        }
        for wrong in ["limits.gpu", "cpu", "claims.cpu"] {
            assert_eq!(of(wrong, None).unwrap_err(), format!("unsupported container resource : {wrong}"));
        }
    }

    #[test]
    fn an_unset_limit_is_the_nodes_allocatable_amount() {
        let of = |resource: &str| {
            let pod = TestPod::new(json!({"containers": [{"name": "d"}]}));
            let field = ResourceFieldSelector { resource: resource.to_owned(), ..Default::default() };
            let spec = pod.pod.spec.as_ref().unwrap();
            resource_value(spec, &spec.containers[0], &field, &NODE).unwrap()
        };
        assert_eq!(of("limits.cpu"), "4");
        assert_eq!(of("limits.memory"), NODE.memory.to_string());
        assert_eq!(of("limits.ephemeral-storage"), NODE.ephemeral_storage.to_string());
        assert_eq!(of("requests.cpu"), "0");
    }

    #[test]
    fn an_unset_limit_is_the_pods_if_it_has_one() {
        let amounts = json!({"cpu": "2", "memory": "64Mi"});
        let resources = json!({"requests": amounts, "limits": amounts});
        let pod = TestPod::new(json!({"resources": resources, "containers": [{"name": "d"}]}));
        let of = |resource: &str| {
            let field = ResourceFieldSelector { resource: resource.to_owned(), ..Default::default() };
            let spec = pod.pod.spec.as_ref().unwrap();
            resource_value(spec, &spec.containers[0], &field, &NODE).unwrap()
        };
        assert_eq!(of("limits.cpu"), "2");
        assert_eq!(of("limits.memory"), (64 << 20).to_string());
        assert_eq!(of("limits.ephemeral-storage"), NODE.ephemeral_storage.to_string());
        assert_eq!(of("requests.memory"), "0");
    }
}
