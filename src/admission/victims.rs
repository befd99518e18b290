//! Which pods make room for a critical one (upstream `CriticalPodAdmissionHandler`): those whose end does least harm. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::fit::{Lack, demand};
use crate::pod::is_critical;
use crate::pod::resources::qos_class;
use crate::pod::view::PodView;
use crate::types::resources::{CPU, MEMORY};
use crate::types::{QosClass, ResourceList};

/// What must be given back, by resource, in the units in which it is counted.
type Missing<'a> = Vec<(&'a str, i64)>;

/// The pods of `others` to end so that `pod` gets what it lacks; none if all of them together would not do.
pub(super) fn victims(pod: &Pod, lacks: &[Lack], others: &[Arc<Pod>]) -> Option<Vec<Arc<Pod>>> {
    let missing: Missing<'_> = lacks.iter().map(|lack| (&*lack.resource, lack.missing())).collect();
    let of_class = |class: QosClass| -> Vec<Arc<Pod>> {
        let preemptable = others.iter().filter(|other| gives_way(other, pod) && qos_class(other) == class);
        preemptable.cloned().collect()
    };
    let guaranteed = of_class(QosClass::Guaranteed);
    let burstable = of_class(QosClass::Burstable);
    let best_effort = of_class(QosClass::BestEffort);
    // Of the better classes only what the worse ones cannot give.
    let worse = [burstable.clone(), best_effort.clone()].concat();
    let mut chosen = nearest(guaranteed, without(&missing, &worse))?;
    let given = [best_effort.clone(), chosen.clone()].concat();
    chosen.extend(nearest(burstable, without(&missing, &given))?);
    let rest = without(&missing, &chosen);
    chosen.extend(nearest(best_effort, rest)?);
    Some(chosen)
}

fn gives_way(other: &Pod, to: &Pod) -> bool {
    let priority = |pod: &Pod| PodView::from(pod).spec.priority.unwrap_or_default();
    (is_critical(to) && !is_critical(other)) || priority(to) > priority(other)
}

/// What is still missing once these pods are gone.
fn without<'a>(missing: &Missing<'a>, gone: &[Arc<Pod>]) -> Missing<'a> {
    let freed = gone.iter().fold(ResourceList::default(), |sum, pod| sum.plus(demand(pod)));
    let left =
        missing.iter().map(|(resource, amount)| (*resource, amount.saturating_sub(freed.units(resource))));
    left.filter(|(_, amount)| *amount > 0).collect()
}

/// Pods that give what is missing, each time the one that comes nearest to it; of equal ones the smaller. None if all do
/// not give enough.
fn nearest(mut pods: Vec<Arc<Pod>>, mut missing: Missing<'_>) -> Option<Vec<Arc<Pod>>> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let key = |pod: &Arc<Pod>| {
            let demand = demand(pod);
            (distance(&demand, &missing), demand.units(MEMORY), demand.units(CPU))
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

/// How much of what is missing this would leave: 0 for nothing.
#[expect(clippy::cast_precision_loss, reason = "the nearer of two is wanted, not a sum")]
fn distance(demand: &ResourceList, missing: &Missing<'_>) -> f64 {
    let left = |(resource, amount): &(&str, i64)| {
        let rest = (amount - demand.units(resource)).max(0) as f64 / *amount as f64;
        rest * rest
    };
    missing.iter().map(left).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fit::{Unfit, fit};
    use super::super::node::NodeView;
    use super::*;
    use crate::types::testing::resource_list;

    fn pod(name: &str, priority: i32, resources: Value) -> Arc<Pod> {
        let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": resources}]});
        let annotations = json!({crate::types::CONFIG_SOURCE_ANNOTATION: "api"});
        let metadata = json!({"name": name, "uid": name, "annotations": annotations});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    fn requests(cpu: &str) -> Value {
        json!({"requests": {"cpu": cpu}})
    }

    /// Names of the pods that make room on a node of 2 CPUs.
    fn chosen(critical: &Pod, others: &[Arc<Pod>]) -> Option<Vec<String>> {
        let allocatable =
            resource_list([("cpu", "2"), ("memory", "1Gi"), ("pods", "10"), ("example.com/gpu", "2")]);
        let node = NodeView { allocatable, ..NodeView::default() };
        let beside: Vec<&Pod> = others.iter().map(|pod| &**pod).collect();
        let Err(Unfit::Lacking(lacks)) = fit(critical, &node, &beside) else { panic!("there is room") };
        let victims = victims(critical, &lacks, others)?;
        Some(victims.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect())
    }

    #[test]
    fn the_pod_that_comes_nearest_makes_room() {
        let critical = pod("critical", 2_000_000_000, requests("500m"));
        let others = [
            pod("large", 0, requests("1100m")),
            pod("fitting", 0, requests("500m")),
            pod("small", 0, requests("400m")),
        ];
        assert_eq!(chosen(&critical, &others), Some(vec!["fitting".to_owned()]));
    }

    #[test]
    fn guaranteed_pods_are_the_last_to_go_and_critical_ones_never_do() {
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
    fn what_holds_a_device_makes_room_for_who_needs_it() {
        let gpu = |amount: &str| json!({"requests": {"example.com/gpu": amount}});
        let critical = pod("critical", 2_000_000_000, gpu("1"));
        let others = [pod("busy", 0, requests("2")), pod("drawing", 0, gpu("2"))];
        assert_eq!(chosen(&critical, &others), Some(vec!["drawing".to_owned()]));
    }

    #[test]
    fn nobody_ends_for_what_cannot_be_had() {
        let critical = pod("critical", 2_000_000_000, requests("3"));
        assert_eq!(chosen(&critical, &[pod("a", 0, requests("1"))]), None);
    }
}
