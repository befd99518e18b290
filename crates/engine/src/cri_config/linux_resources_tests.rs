//! Resources of containers as the runtime receives them, compared with the stock kubelet's.

use serde_json::{Value, json};

use super::*;
use crate::cri_config::testing::{full_pod, host, pod};
use hostlet_base::MemoryQos;
use hostlet_pod::resources::pod_resources;

fn of(resources: Value, host: &HostSettings) -> LinuxContainerResources {
    let pod = pod(json!({"containers": [{"name": "c", "resources": resources}]}));
    container_resources(&pod, &pod.spec.as_ref().unwrap().containers[0], host)
}

#[test]
fn a_container_without_resources_equals_the_stock_kubelets() {
    let pod = full_pod();
    let side = &pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap()[1];
    let resources = container_resources(&pod, side, &HostSettings { memory_capacity: 1 << 40, ..host() });
    let limit = |size: &str| HugepageLimit { page_size: size.into(), limit: 0 };
    let expected = LinuxContainerResources {
        cpu_period: 100_000,
        cpu_shares: 2,
        hugepage_limits: vec![limit("2MB"), limit("1GB")],
        oom_score_adj: 999,
        ..Default::default()
    };
    assert_eq!(resources, expected);
}

#[test]
fn cpu_follows_request_limit_and_settings() {
    let limited = of(json!({"limits": {"cpu": "500m"}}), &host());
    assert_eq!((limited.cpu_shares, limited.cpu_quota), (512, 50_000));
    let tiny = of(json!({"requests": {"cpu": "0"}, "limits": {"cpu": "1m"}}), &host());
    assert_eq!((tiny.cpu_shares, tiny.cpu_quota), (2, 1000));
    let without_quota = HostSettings { cpu_cfs_quota: false, ..host() };
    let unlimited = of(json!({"limits": {"cpu": "500m"}}), &without_quota);
    assert_eq!((unlimited.cpu_quota, unlimited.cpu_period), (0, 0));
}

#[test]
fn on_v2_the_whole_container_is_killed_and_never_swaps() {
    let v2 = HostSettings { cgroup_v2: true, single_process_oom_kill: false, ..host() };
    let resources = of(json!({"limits": {"memory": "1Mi"}}), &v2);
    let expected =
        [("memory.low", "0"), ("memory.min", "0"), ("memory.oom.group", "1"), ("memory.swap.max", "0")];
    assert_eq!(resources.unified, HashMap::from(expected.map(|(k, v)| (k.to_owned(), v.to_owned()))));
    assert_eq!((resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes), (1 << 20, 0));
    let mut single = HostSettings { single_process_oom_kill: true, ..v2 };
    single.kernel.swap_controller = false;
    single.memory_qos = None;
    let reset = [("memory.high".to_owned(), "max".to_owned())];
    assert_eq!(of(json!({}), &single).unified, HashMap::from(reset));
}

#[test]
fn memory_is_protected_and_throttled_by_policy() {
    let memory_qos = MemoryQos { has_tiered_reservation: true, throttling_factor: Some(0.5) };
    let v2 = HostSettings { cgroup_v2: true, memory_qos: Some(memory_qos), ..host() };
    let of = |spec: Value| {
        let pod = pod(spec);
        let unified = container_resources(&pod, &pod.spec.as_ref().unwrap().containers[0], &v2).unified;
        let mut files: Vec<String> = unified
            .into_iter()
            .filter(|(file, _)| file != "memory.swap.max")
            .map(|(file, value)| format!("{file} {value}"))
            .collect();
        files.sort();
        files
    };
    let own = |resources: Value| of(json!({"containers": [{"name": "c", "resources": resources}]}));
    let amounts = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    let both = json!({"requests": amounts("1", "4Mi"), "limits": amounts("1", "4Mi")});
    assert_eq!(own(both), ["memory.min 4194304"]);
    let burstable = json!({"requests": {"memory": "4Mi"}, "limits": {"memory": "8Mi"}});
    assert_eq!(own(burstable), ["memory.high 6291456", "memory.low 4194304"]);
    // Half of what the node has.
    assert_eq!(own(json!({})), ["memory.high 4294967296", "memory.low 0", "memory.min 0"]);
    let throttled_by_pod = of(json!({
        "resources": {"limits": {"memory": "8Mi"}},
        "containers": [{"name": "c", "resources": {"requests": {"memory": "4Mi"}}}],
    }));
    assert_eq!(throttled_by_pod, ["memory.low 4194304"]);
}

#[test]
fn burstable_containers_swap_in_proportion_to_their_request() {
    let v2 = HostSettings { cgroup_v2: true, limited_swap: true, swap_capacity: 4 << 30, ..host() };
    let swap = |spec: Value, host: &HostSettings| {
        let pod = pod(spec);
        let resources = container_resources(&pod, &pod.spec.as_ref().unwrap().containers[0], host);
        resources.unified["memory.swap.max"].clone()
    };
    let own = |resources: Value| json!({"containers": [{"name": "c", "resources": resources}]});
    let burstable = own(json!({"requests": {"memory": "1Gi"}}));
    assert_eq!(swap(burstable.clone(), &v2), (512_u64 << 20).to_string());
    assert_eq!(swap(burstable.clone(), &HostSettings { limited_swap: false, ..v2.clone() }), "0");
    let mut critical = burstable;
    critical["priority"] = json!(2_000_000_000);
    assert_eq!(swap(critical, &v2), "0");
    let equal = json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(swap(own(equal), &v2), "0");
    assert_eq!(swap(own(json!({"requests": {"cpu": "1"}})), &v2), "0", "requests no memory");
    assert_eq!(swap(own(json!({"requests": {"memory": "9Gi"}})), &v2), "0", "more than the machine has");
    assert_eq!(swap(own(json!({})), &v2), "0");
}

#[test]
fn huge_pages_of_the_machine_are_limited_to_the_request() {
    let limits =
        of(json!({"limits": {"hugepages-2Mi": "4Mi", "hugepages-64Ki": "64Ki"}}), &host()).hugepage_limits;
    let shown: Vec<_> = limits.iter().map(|limit| (limit.page_size.as_str(), limit.limit)).collect();
    assert_eq!(shown, [("2MB", 4 << 20), ("1GB", 0)]);
}

#[test]
fn missing_limits_default_to_the_pods() {
    let pod = pod(json!({
        "resources": {"limits": {"cpu": "1", "memory": "8Mi", "hugepages-1Gi": "1Gi"}},
        "containers": [{"name": "c", "resources": {"limits": {"memory": "4Mi"}}}]
    }));
    let resources = container_resources(&pod, &pod.spec.as_ref().unwrap().containers[0], &host());
    assert_eq!((resources.cpu_quota, resources.memory_limit_in_bytes), (100_000, 4 << 20));
    assert_eq!(resources.hugepage_limits[1].limit, 1 << 30);
    let sandbox = sandbox_resources(&pod, &host());
    assert_eq!((sandbox.cpu_quota, sandbox.memory_limit_in_bytes), (100_000, 8 << 20));
}

#[test]
fn overhead_is_both_request_and_limit() {
    let pod = pod(json!({"overhead": {"cpu": "100m", "memory": "1Mi"}, "containers": []}));
    let overhead = overhead_resources(&pod, &host());
    assert_eq!(
        (overhead.cpu_shares, overhead.cpu_quota, overhead.memory_limit_in_bytes),
        (102, 10_000, 1 << 20)
    );
}

#[test]
fn a_resize_changes_cpu_and_memory_only() {
    let pod = pod(json!({
        "overhead": {"cpu": "100m", "memory": "1Mi"},
        "containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "4Mi", "hugepages-2Mi": "4Mi"}
        }}]
    }));
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let made = container_resources(&pod, container, &host());
    let enforced = Enforced { memory_limit: 8 << 20, ..Enforced::of(&pod, container) };
    let resized = resized_resources(&pod, container, &enforced, None, &host());
    let expected = LinuxContainerResources {
        memory_limit_in_bytes: 8 << 20,
        memory_swap_limit_in_bytes: 8 << 20,
        ..made
    };
    assert_eq!(resized, expected);
    let of_pod = pod_resources(&pod, &Enforced::of_pod(&pod), host().cpu_cfs_quota_period, None);
    let (left, overhead) = resized_sandbox(&pod, &of_pod, &host());
    assert_eq!((left.cpu_quota, left.cpu_shares, left.memory_limit_in_bytes), (100_000, 1024, 4 << 20));
    assert_eq!(overhead, overhead_resources(&pod, &host()));
}
