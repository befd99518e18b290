//! Requests against the resources of a node: what is short, and what can never be granted.

use serde_json::{Value, json};

use super::*;
use hostlet_base::Quantity;
use hostlet_base::testing::resource_list;
use hostlet_pod::Rejection;

fn requesting(requests: Value) -> Pod {
    let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})).unwrap()
}

fn node() -> ResourceList {
    resource_list([("cpu", "2"), ("memory", "1Gi"), ("ephemeral-storage", "1Gi"), ("pods", "3")])
}

fn admit(pod: &Pod, node: &ResourceList, others: &[&Pod]) -> Admission {
    let allocations: Vec<Allocation> = others.iter().map(|other| Allocation::of(other)).collect();
    let others = others.iter().zip(&allocations);
    let allocated: Vec<_> = others.map(|(pod, allocation)| AllocatedPod { pod, allocation }).collect();
    NodeResources::new(node.clone()).admit(pod, &allocated)
}

fn rejection(pod: &Pod, node: &ResourceList, others: &[&Pod]) -> Option<Rejection> {
    match admit(pod, node, others) {
        Admission::Granted(_) => None,
        Admission::NotYet(shortages) => Some(shortages[0].rejection()),
        Admission::Rejected(rejection) => Some(rejection),
    }
}

fn message(pod: &Pod, node: &ResourceList, others: &[&Pod]) -> Option<String> {
    rejection(pod, node, others).map(|rejection| rejection.message)
}

#[test]
fn the_first_shortage_is_the_reason() {
    let one = requesting(json!({"cpu": "1500m", "memory": "100Mi"}));
    assert_eq!(admit(&one, &node(), &[]), Admission::Granted(Allocation::of(&one)));
    let Admission::NotYet(shortages) = admit(&one, &node(), &[&one]) else { panic!("it lacks CPU") };
    assert_eq!(shortages[0].missing(), 1000);
    let expected = Rejection::new(
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000",
    );
    assert_eq!(shortages[0].rejection(), expected);
    let reason = |pod: &Pod, others: &[&Pod]| rejection(pod, &node(), others).unwrap().reason;
    let none = requesting(json!({}));
    assert_eq!(reason(&none, &[&none, &none, &none]), "OutOfpods");
    assert_eq!(reason(&requesting(json!({"memory": "2Gi"})), &[]), "OutOfmemory");
    assert_eq!(reason(&requesting(json!({"ephemeral-storage": "2Gi"})), &[]), "OutOfephemeral-storage");
}

#[test]
fn what_exceeds_the_whole_node_is_never_granted() {
    let (small, large) = (requesting(json!({"cpu": "1"})), requesting(json!({"cpu": "2"})));
    assert!(matches!(admit(&large, &node(), &[&small]), Admission::NotYet(_)));
    let both = requesting(json!({"cpu": "2", "memory": "2Gi"}));
    let Admission::Rejected(rejection) = admit(&both, &node(), &[&small]) else {
        panic!("there is no such memory")
    };
    assert_eq!(rejection.reason, "OutOfcpu");
}

/// As a stock kubelet 1.37.2 checks them.
#[test]
fn a_resource_of_any_name_is_counted_if_the_node_has_it_or_should() {
    let mut node = node();
    node.set("example.com/dongle", Quantity::count(2));
    let one = requesting(json!({"example.com/dongle": "1"}));
    assert_eq!(message(&one, &node, &[&one]), None);
    let lacking = "Node didn't have enough resource: example.com/dongle, requested: 1, used: 2, capacity: 2";
    assert_eq!(message(&one, &node, &[&one, &one]).as_deref(), Some(lacking));
    let more = rejection(&requesting(json!({"example.com/dongle": "3"})), &node, &[]);
    assert_eq!(more.unwrap().reason, "OutOfexample.com/dongle");

    // Of the cluster.
    assert_eq!(message(&requesting(json!({"example.com/license": "9"})), &node, &[]), None);
    // Kubernetes' own is there or is not.
    let huge = requesting(json!({"hugepages-2Mi": "4Mi"}));
    let lacking = "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0";
    assert_eq!(message(&huge, &node, &[]).as_deref(), Some(lacking));
    let own = message(&requesting(json!({"kubernetes.io/x": "1"})), &node, &[]).unwrap();
    assert!(own.contains("kubernetes.io/x, requested: 1"), "{own}");
}

#[test]
fn resources_are_checked_in_one_order() {
    let node = NodeResources::new(resource_list([("a.example.com/x", "0"), ("ephemeral-storage", "0")]));
    let all = ["hugepages-2Mi", "a.example.com/x", "memory", "ephemeral-storage", "cpu"];
    let greedy = requesting(all.map(|name| (name.to_owned(), json!("1"))).into_iter().collect());
    let shortages = node.shortages(&Allocation::of(&greedy), &[]);
    let order: Vec<&str> = shortages.iter().map(|shortage| shortage.resource.as_str()).collect();
    let expected = ["pods", "cpu", "memory", "ephemeral-storage", "a.example.com/x", "hugepages-2Mi"];
    assert_eq!(order, expected);
}

#[test]
fn storage_that_is_not_isolated_can_not_be_requested() {
    let node = node().only(|name| name != EPHEMERAL_STORAGE);
    let rejection = |requests| rejection(&requesting(requests), &node, &[]);
    let lacking =
        "Node didn't have enough resource: ephemeral-storage, requested: 1048576, used: 0, capacity: 0";
    let storage = rejection(json!({"ephemeral-storage": "1Mi"})).unwrap();
    assert_eq!((&*storage.reason, &*storage.message), ("OutOfephemeral-storage", lacking));
    for requests in [json!({"ephemeral-storage": "0"}), json!({"cpu": "1"})] {
        assert_eq!(rejection(requests), None);
    }
}

#[test]
fn a_pod_without_requests_fits_on_a_full_node() {
    let full = requesting(json!({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}));
    assert_eq!(message(&requesting(json!({})), &node(), &[&full]), None);
}
