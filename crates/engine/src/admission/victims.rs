//! Chooses the pods to preempt for a critical pod (upstream `CriticalPodAdmissionHandler`). Pure.

use k8s_openapi::api::core::v1::Pod;

use hostlet_base::resources::{CPU, MEMORY};
use hostlet_base::{QosClass, ResourceList};
use hostlet_pod::is_critical;
use hostlet_pod::resources::qos_class;
use hostlet_pod::view::PodView;
use hostlet_resources::{AllocatedPod, Allocation, Shortage};

/// The amount of each resource that preemption must free, in the units in which the resource is counted.
type Missing<'a> = Vec<(&'a str, i64)>;

/// The pods among `others` to preempt so that `pod` fits; `None` if preempting all of them would not suffice.
pub(super) fn victims<'a>(
    pod: &Pod,
    shortages: &[Shortage],
    others: &[AllocatedPod<'a>],
) -> Option<Vec<AllocatedPod<'a>>> {
    let missing: Missing<'_> =
        shortages.iter().map(|shortage| (&*shortage.resource, shortage.missing())).collect();
    let of_class = |class: QosClass| -> Vec<AllocatedPod<'a>> {
        let preemptable =
            others.iter().filter(|other| is_preemptable(other.pod, pod) && qos_class(other.pod) == class);
        preemptable.copied().collect()
    };
    let guaranteed = of_class(QosClass::Guaranteed);
    let burstable = of_class(QosClass::Burstable);
    let best_effort = of_class(QosClass::BestEffort);
    // Pods of a higher QoS class are preempted only for what the lower classes cannot free.
    let worse = [burstable.clone(), best_effort.clone()].concat();
    let mut chosen = nearest(guaranteed, without(&missing, &worse))?;
    let given = [best_effort.clone(), chosen.clone()].concat();
    chosen.extend(nearest(burstable, without(&missing, &given))?);
    let rest = without(&missing, &chosen);
    chosen.extend(nearest(best_effort, rest)?);
    Some(chosen)
}

fn is_preemptable(other: &Pod, by: &Pod) -> bool {
    let priority = |pod: &Pod| PodView::from(pod).spec.priority;
    // Without a priority, it is no reason for a decision: a critical pod without one is a static pod.
    let is_higher = priority(by).zip(priority(other)).is_some_and(|(by, other)| by > other);
    (is_critical(by) && !is_critical(other)) || is_higher
}

/// What is still missing after these pods are preempted.
fn without<'a>(missing: &Missing<'a>, preempted: &[AllocatedPod<'_>]) -> Missing<'a> {
    let freed = Allocation::sum(preempted);
    let left =
        missing.iter().map(|(resource, amount)| (*resource, amount.saturating_sub(freed.units(resource))));
    left.filter(|(_, amount)| *amount > 0).collect()
}

/// Pods that together free what is missing: repeatedly the one that leaves the least missing, and of equal ones the
/// smallest. `None` if all of them do not suffice.
fn nearest<'a>(mut pods: Vec<AllocatedPod<'a>>, mut missing: Missing<'_>) -> Option<Vec<AllocatedPod<'a>>> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let key = |pod: &AllocatedPod<'_>| {
            let freed = &pod.allocation.resources;
            (distance(freed, &missing), freed.units(MEMORY), freed.units(CPU))
        };
        let ordered = |a: &(f64, i64, i64), b: &(f64, i64, i64)| {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
        };
        let best = pods.iter().enumerate().min_by(|(_, a), (_, b)| ordered(&key(a), &key(b)))?.0;
        let pod = pods.swap_remove(best);
        missing = without(&missing, std::slice::from_ref(&pod));
        chosen.push(pod);
    }
    Some(chosen)
}

/// How much would still be missing after freeing `freed`, as a sum of squared fractions; 0 if nothing (upstream
/// `admissionRequirementList.distance`).
#[expect(clippy::cast_precision_loss, reason = "it only ranks candidates")]
fn distance(freed: &ResourceList, missing: &Missing<'_>) -> f64 {
    let left = |(resource, amount): &(&str, i64)| {
        let rest = (amount - freed.units(resource)).max(0) as f64 / *amount as f64;
        rest * rest
    };
    missing.iter().map(left).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::fit::{Unfit, fit};
    use super::super::node::NodeView;
    use super::*;
    use hostlet_base::testing::resource_list;
    use hostlet_resources::NodeResources;

    fn pod(name: &str, priority: i32, resources: Value) -> Arc<Pod> {
        let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": resources}]});
        let annotations = json!({hostlet_base::CONFIG_SOURCE_ANNOTATION: "api"});
        let metadata = json!({"name": name, "uid": name, "annotations": annotations});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    fn requests(cpu: &str) -> Value {
        json!({"requests": {"cpu": cpu}})
    }

    /// Names of the pods that are preempted on a node with 2 CPUs.
    fn chosen(critical: &Pod, others: &[Arc<Pod>]) -> Option<Vec<String>> {
        let allocatable =
            resource_list([("cpu", "2"), ("memory", "1Gi"), ("pods", "10"), ("example.com/gpu", "2")]);
        let node = NodeView { resources: NodeResources::new(allocatable), ..NodeView::default() };
        let allocations: Vec<Allocation> = others.iter().map(|other| Allocation::of(other)).collect();
        let running = others.iter().zip(&allocations);
        let running: Vec<_> = running.map(|(pod, allocation)| AllocatedPod { pod, allocation }).collect();
        let Err(Unfit::Insufficient(shortages)) = fit(critical, &node, &running) else { panic!("it fits") };
        let victims = victims(critical, &shortages, &running)?;
        Some(victims.iter().map(|victim| victim.pod.metadata.name.clone().unwrap()).collect())
    }

    #[test]
    fn the_pod_that_leaves_the_least_missing_is_preempted() {
        let critical = pod("critical", 2_000_000_000, requests("500m"));
        let others = [
            pod("large", 0, requests("1100m")),
            pod("fitting", 0, requests("500m")),
            pod("small", 0, requests("400m")),
        ];
        assert_eq!(chosen(&critical, &others), Some(vec!["fitting".to_owned()]));
    }

    #[test]
    fn guaranteed_pods_are_preempted_last_and_critical_pods_never() {
        let critical = pod("critical", 2_000_000_000, requests("1"));
        let both = json!({"cpu": "1", "memory": "1Mi"});
        let guaranteed = pod("guaranteed", 0, json!({"requests": both, "limits": both}));
        let others = [guaranteed.clone(), pod("burstable", 0, requests("1"))];
        assert_eq!(chosen(&critical, &others), Some(vec!["burstable".to_owned()]));
        let others = [guaranteed, pod("vital", 2_000_000_000, requests("1"))];
        assert_eq!(chosen(&critical, &others), Some(vec!["guaranteed".to_owned()]));
        let others = [pod("vital", 2_000_000_000, requests("1")), pod("too", 2_000_000_000, requests("1"))];
        assert_eq!(chosen(&critical, &others), None);
    }

    #[test]
    fn a_static_pod_without_a_priority_is_never_preempted() {
        let critical = pod("critical", 2_000_001_000, requests("1500m"));
        let of_file = |priority: Option<i32>| {
            let mut pod = Pod::clone(&pod("static", 0, requests("1")));
            pod.spec.as_mut().unwrap().priority = priority;
            let source = hostlet_base::CONFIG_SOURCE_ANNOTATION.to_owned();
            pod.metadata.annotations.get_or_insert_default().insert(source, "file".to_owned());
            Arc::new(pod)
        };
        assert_eq!(chosen(&critical, &[of_file(None)]), None);
        assert_eq!(chosen(&of_file(None), &[of_file(Some(7)), of_file(Some(7))]), None);
        assert_eq!(chosen(&critical, &[of_file(Some(2_000_000_000))]), Some(vec!["static".to_owned()]));
    }

    #[test]
    fn the_pod_that_holds_the_device_is_preempted() {
        let gpu = |amount: &str| json!({"requests": {"example.com/gpu": amount}});
        let critical = pod("critical", 2_000_000_000, gpu("1"));
        let others = [pod("busy", 0, requests("2")), pod("drawing", 0, gpu("2"))];
        assert_eq!(chosen(&critical, &others), Some(vec!["drawing".to_owned()]));
    }

    #[test]
    fn nothing_is_preempted_in_vain() {
        let critical = pod("critical", 2_000_000_000, requests("1500m"));
        let vital = pod("vital", 2_000_000_000, requests("1"));
        assert_eq!(chosen(&critical, &[vital, pod("a", 0, requests("1"))]), None);
    }
}
