//! Cgroups of pods of every QoS class, compared with the stock kubelet's.

use serde_json::{Value, json};

use super::*;
use crate::resources::testing::pod;

const PERIOD: Duration = Duration::from_millis(100);

fn of(spec: Value) -> PodResources {
    let pod = pod(spec);
    pod_resources(&pod, &Enforced::of_pod(&pod), PERIOD, None)
}

fn limited(name: &str, limits: Value) -> Value {
    json!({"name": name, "resources": {"limits": limits, "requests": {"cpu": "100m"}}})
}

#[test]
fn limits_apply_only_if_all_containers_have_them() {
    let both = json!({"cpu": "500m", "memory": "10Mi"});
    let resources = of(json!({"containers": [limited("a", both.clone()), limited("b", both.clone())]}));
    let expected = PodResources {
        cpu_shares: 204,
        cpu_quota: Some(100_000),
        memory_limit: Some(20 << 20),
        ..PodResources::default()
    };
    assert_eq!(resources, expected);
    let resources =
        of(json!({"containers": [limited("a", both.clone()), limited("b", json!({"cpu": "500m"}))]}));
    assert_eq!(resources, PodResources { memory_limit: None, ..expected.clone() });
    let resources =
        of(json!({"containers": [limited("a", both.clone()), limited("b", json!({"cpu": "0"}))]}));
    assert_eq!(resources, PodResources { cpu_quota: None, memory_limit: None, ..expected });
    let init = json!({"initContainers": [{"name": "i"}], "containers": [limited("a", both)]});
    assert_eq!(of(init), PodResources { cpu_shares: 102, ..PodResources::default() });
}

#[test]
fn a_burstable_pod_without_limits_is_set_as_by_the_stock_kubelet() {
    let resources = of(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}));
    assert_eq!(resources, PodResources { cpu_shares: 102, ..PodResources::default() });
}

#[test]
fn best_effort_pods_have_minimal_shares() {
    let overhead = json!({"cpu": "1", "memory": "1Mi"});
    let resources = of(json!({"containers": [{"name": "c"}], "overhead": overhead}));
    assert_eq!(resources, PodResources { cpu_shares: 2, ..PodResources::default() });
}

#[test]
fn overhead_adds_to_requests_and_existing_limits() {
    let resources = of(json!({
        "containers": [limited("a", json!({"cpu": "400m"}))], "overhead": {"cpu": "100m", "memory": "1Mi"}
    }));
    assert_eq!(
        resources,
        PodResources { cpu_shares: 204, cpu_quota: Some(50_000), ..PodResources::default() }
    );
}

#[test]
fn pod_level_limits_need_no_container_limits() {
    let resources = of(json!({
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "8Mi"}},
        "containers": [{"name": "a"}, limited("b", json!({"memory": "4Mi"}))]
    }));
    let expected = PodResources {
        cpu_shares: 1024,
        cpu_quota: Some(200_000),
        memory_limit: Some(8 << 20),
        ..PodResources::default()
    };
    assert_eq!(resources, expected);
}

#[test]
fn requested_huge_pages_are_the_limit() {
    let huge = json!({"cpu": "100m", "hugepages-2Mi": "4Mi"});
    let resources =
        of(json!({"containers": [{"name": "a", "resources": {"requests": huge, "limits": huge}}]}));
    assert_eq!(resources.huge_pages, BTreeMap::from([(2 << 20, 4 << 20)]));
}

#[test]
fn memory_is_protected_by_class_and_throttled_for_the_pod_as_a_whole() {
    let rules = MemoryQos { has_tiered_reservation: true, throttling_factor: Some(0.5) };
    let of = |spec: Value| {
        let pod = pod(spec);
        pod_resources(&pod, &Enforced::of_pod(&pod), PERIOD, Some(&rules))
    };
    let memory = |memory: &str| json!({"cpu": "1", "memory": memory});
    let container = |requests: Value, limits: Value| json!({"name": "a", "resources": {"requests": requests, "limits": limits}});
    let guaranteed = of(json!({"containers": [container(memory("4Mi"), memory("4Mi"))]}));
    assert_eq!((guaranteed.memory_protection.min, guaranteed.memory_protection.low), (4 << 20, 0));
    let burstable = of(json!({
        "containers": [container(memory("4Mi"), memory("8Mi"))], "overhead": {"memory": "1Mi"}
    }));
    assert_eq!((burstable.memory_protection.min, burstable.memory_protection.low), (0, 5 << 20));
    assert_eq!(burstable.memory_high, None, "its container is throttled");
    let whole = |requests: &str| {
        let resources = json!({"requests": memory(requests), "limits": memory("8Mi")});
        of(json!({"resources": resources, "containers": [{"name": "a"}]})).memory_high
    };
    assert_eq!((whole("4Mi"), whole("8Mi")), (Some(6 << 20), None));
}
