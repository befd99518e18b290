//! The QoS class of a pod (Kubernetes docs, "Pod Quality of Service Classes").

use hostlet_base::QosClass;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use super::amounts::Amounts;
use crate::view::PodView;

/// The QoS class of a pod. Only non-zero amounts of CPU and memory count. Pod-level resources, if any, replace those of the
/// containers (an empty `resources` is ignored since 1.37).
pub fn qos_class(pod: &Pod) -> QosClass {
    let view = PodView::from(pod);
    let resources: Vec<_> = match view.spec.resources.as_ref().filter(|own| names_any(own)) {
        Some(own) => vec![Some(own)],
        None => {
            let containers = view.spec.containers.iter().chain(view.init_containers());
            containers.map(|container| container.resources.as_ref()).collect()
        }
    };
    let amounts =
        |resources| (positive(Amounts::requested(resources)), positive(Amounts::limited(resources)));
    let amounts: Vec<_> = resources.into_iter().map(amounts).collect();
    if amounts
        .iter()
        .all(|(requests, limits)| *requests == Amounts::default() && *limits == Amounts::default())
    {
        return QosClass::BestEffort;
    }
    let guaranteed = |(requests, limits): &(Amounts, Amounts)| {
        limits.milli_cpu.is_some() && limits.memory.is_some() && requests == limits
    };
    if amounts.iter().all(guaranteed) { QosClass::Guaranteed } else { QosClass::Burstable }
}

/// Whether there are any requests or limits.
fn names_any(resources: &ResourceRequirements) -> bool {
    [&resources.requests, &resources.limits].into_iter().flatten().any(|list| !list.is_empty())
}

fn positive(amounts: Amounts) -> Amounts {
    let above_zero = |amount: Option<i64>| amount.filter(|amount| *amount > 0);
    Amounts { milli_cpu: above_zero(amounts.milli_cpu), memory: above_zero(amounts.memory) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::testing::pod;

    fn class(containers: &[Value]) -> QosClass {
        let containers: Vec<Value> =
            containers.iter().map(|r| json!({"name": "c", "resources": r})).collect();
        qos_class(&pod(json!({"containers": containers})))
    }

    #[test]
    fn classes_follow_requests_and_limits_of_every_container() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let full = json!({"requests": both, "limits": both});
        assert_eq!(class(&[json!({})]), QosClass::BestEffort);
        assert_eq!(
            class(&[json!({"requests": {"cpu": "0"}, "limits": {"memory": "0"}})]),
            QosClass::BestEffort
        );
        assert_eq!(class(&[json!({"limits": {"hugepages-2Mi": "2Mi"}})]), QosClass::BestEffort);
        assert_eq!(class(std::slice::from_ref(&full)), QosClass::Guaranteed);
        assert_eq!(class(&[full.clone(), full.clone()]), QosClass::Guaranteed);
        assert_eq!(class(&[full.clone(), json!({})]), QosClass::Burstable);
        assert_eq!(class(&[json!({"limits": both})]), QosClass::Burstable);
        assert_eq!(
            class(&[json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": both})]),
            QosClass::Burstable
        );
        let written_otherwise = json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": both});
        assert_eq!(class(&[written_otherwise]), QosClass::Guaranteed);
    }

    #[test]
    fn init_containers_count_and_pod_level_resources_replace_all() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let full = json!({"requests": both, "limits": both});
        let mut spec = json!({
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "c", "resources": full}]
        });
        assert_eq!(qos_class(&pod(spec.clone())), QosClass::Burstable);
        spec["resources"] = json!({"requests": {}});
        assert_eq!(qos_class(&pod(spec.clone())), QosClass::Burstable);
        spec["resources"] = full;
        assert_eq!(qos_class(&pod(spec.clone())), QosClass::Guaranteed);
        spec["resources"] = json!({"limits": {"hugepages-2Mi": "2Mi"}});
        assert_eq!(qos_class(&pod(spec)), QosClass::BestEffort);
    }
}
