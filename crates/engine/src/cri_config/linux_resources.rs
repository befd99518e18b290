//! CPU, memory and huge page settings of sandboxes and containers, which the runtime writes to cgroups. Pure.

use std::collections::{BTreeMap, HashMap};

use hostlet_base::{QosClass, Quantity};
use hostlet_host::cgroup::{MIN_SHARES, PodResources, cpu_quota, cpu_shares, huge_page_size};
use hostlet_pod::resources::{
    Amounts, Enforced, may_swap, oom_score_adj, pod_limits, pod_requests, qos_class,
};
use hostlet_runtime::cri::wire::{HugepageLimit, LinuxContainerResources};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::HostSettings;

type ResourceList = BTreeMap<String, ApiQuantity>;

const HUGEPAGES_PREFIX: &str = "hugepages-";

/// Settings of a container. A missing limit defaults to the pod's, if any.
pub(super) fn container_resources(
    pod: &Pod,
    container: &Container,
    host: &HostSettings,
) -> LinuxContainerResources {
    let own = container.resources.as_ref();
    let shared = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let shared_list = shared.and_then(|shared| shared.limits.as_ref());
    let own_list = own.and_then(|own| own.limits.as_ref());
    let (shared_limits, limits) = (Amounts::of(shared_list), Amounts::of(own_list));
    let requests = Amounts::of(own.and_then(|own| own.requests.as_ref()));
    let set = |amount: Option<i64>| amount.filter(|amount| *amount != 0);
    let mut resources = calculate(
        requests.milli_cpu,
        set(limits.milli_cpu).or(shared_limits.milli_cpu).unwrap_or(0),
        set(limits.memory).or(shared_limits.memory).unwrap_or(0),
        host,
    );
    resources.oom_score_adj = oom_score_adj(pod, container, host.memory_capacity);
    resources.hugepage_limits = hugepage_limits(shared_list, own_list, &host.kernel.hugepage_sizes);
    let memory = ContainerMemory {
        qos: qos_class(pod),
        may_swap: may_swap(pod, container),
        request: requests.memory.unwrap_or(0),
        limit: limits.memory.unwrap_or(0),
        is_throttled_by_pod: shared_limits.memory.is_some_and(|limit| limit != 0),
    };
    set_swap(&mut resources, &memory, host);
    set_memory_qos(&mut resources, &memory, host);
    resources
}

/// Settings of a running container whose CPU and memory become `enforced`; the others are as it was created.
pub(crate) fn resized_resources(
    pod: &Pod,
    container: &Container,
    enforced: &Enforced,
    host: &HostSettings,
) -> LinuxContainerResources {
    let resources = enforced.set_in(container.resources.as_ref());
    let container =
        Container { name: container.name.clone(), resources: Some(resources), ..Container::default() };
    container_resources(pod, &container, host)
}

/// The resources that a runtime is notified of when a pod's cgroup gets these settings: first without the overhead, then the overhead.
pub(crate) fn resized_sandbox(
    pod: &Pod,
    resources: &PodResources,
    host: &HostSettings,
) -> (LinuxContainerResources, LinuxContainerResources) {
    let overhead = overhead_resources(pod, host);
    let shares = resources.cpu_shares.cast_signed().saturating_sub(overhead.cpu_shares);
    let left = LinuxContainerResources {
        cpu_period: period(host),
        cpu_quota: resources.cpu_quota.map_or(0, |quota| quota.saturating_sub(overhead.cpu_quota)),
        cpu_shares: shares.max(MIN_SHARES.cast_signed()),
        memory_limit_in_bytes: resources
            .memory_limit
            .map_or(0, |limit| limit.saturating_sub(overhead.memory_limit_in_bytes)),
        ..Default::default()
    };
    (left, overhead)
}

/// The sum of the pod's containers, without overhead.
pub(super) fn sandbox_resources(pod: &Pod, host: &HostSettings) -> LinuxContainerResources {
    let (requests, limits) = (pod_requests(pod), pod_limits(pod));
    calculate(requests.milli_cpu, limits.milli_cpu.unwrap_or(0), limits.memory.unwrap_or(0), host)
}

/// The pod's overhead; empty without one.
pub(super) fn overhead_resources(pod: &Pod, host: &HostSettings) -> LinuxContainerResources {
    let Some(overhead) = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()) else {
        return LinuxContainerResources::default();
    };
    let overhead = Amounts::of(Some(overhead));
    let milli_cpu = overhead.milli_cpu.unwrap_or(0);
    calculate(Some(milli_cpu), milli_cpu, overhead.memory.unwrap_or(0), host)
}

/// A missing request defaults to the limit; a missing limit (0) is unlimited.
fn calculate(
    cpu_request: Option<i64>,
    cpu_limit: i64,
    memory_limit: i64,
    host: &HostSettings,
) -> LinuxContainerResources {
    let mut resources = LinuxContainerResources {
        cpu_shares: cpu_shares(cpu_request.unwrap_or(cpu_limit)).cast_signed(),
        memory_limit_in_bytes: memory_limit,
        ..Default::default()
    };
    if host.cpu_cfs_quota {
        resources.cpu_period = period(host);
        resources.cpu_quota = cpu_quota(cpu_limit, host.cpu_cfs_quota_period).unwrap_or(0);
    }
    if host.cgroup_v2 && !host.single_process_oom_kill {
        resources.unified = HashMap::from([("memory.oom.group".to_owned(), "1".to_owned())]);
    }
    resources
}

fn period(host: &HostSettings) -> i64 {
    i64::try_from(host.cpu_cfs_quota_period.as_micros()).unwrap_or(i64::MAX)
}

/// A container's own memory, bytes; 0 if not set.
struct ContainerMemory {
    qos: QosClass,
    may_swap: bool,
    request: i64,
    limit: i64,
    /// Whether the pod has a limit: then its cgroup throttles containers without one.
    is_throttled_by_pod: bool,
}

/// Memory protection and throttling on v2 (KEP-2570). Without the feature gate, what it had set is reset, as by the stock kubelet.
fn set_memory_qos(resources: &mut LinuxContainerResources, memory: &ContainerMemory, host: &HostSettings) {
    if !host.cgroup_v2 {
        return;
    }
    let mut set = |file: &str, value: String| resources.unified.insert(file.to_owned(), value);
    let Some(memory_qos) = &host.memory_qos else {
        set("memory.high", "max".to_owned());
        return;
    };
    let ContainerMemory { request, limit, .. } = *memory;
    let protection = memory_qos.protection(memory.qos, request);
    // What is protected is not reset: the stock kubelet names only one of them.
    let is_unprotected = protection.min == 0 && protection.low == 0;
    for (file, bytes) in [("memory.min", protection.min), ("memory.low", protection.low)] {
        if is_unprotected || bytes != 0 {
            set(file, bytes.to_string());
        }
    }
    let is_throttled_by_pod = limit == 0 && memory.is_throttled_by_pod;
    if is_throttled_by_pod || (request == limit && request != 0) {
        return;
    }
    let most = if limit == 0 { host.allocatable.memory } else { limit };
    if let Some(above) = memory_qos.throttled_above(request, most) {
        set("memory.high", above.to_string());
    }
}

/// Limits swap. Without any: on v2 its maximum is 0; on v1 the limit of memory plus swap equals that of memory.
fn set_swap(resources: &mut LinuxContainerResources, memory: &ContainerMemory, host: &HostSettings) {
    if !host.kernel.swap_controller {
        return;
    }
    if host.cgroup_v2 {
        let limit = if host.limited_swap && memory.may_swap { swap_share(memory.request, host) } else { 0 };
        resources.unified.insert("memory.swap.max".to_owned(), limit.to_string());
    } else {
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
    }
}

/// As much of the machine's swap as the request is of its memory.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream's arithmetic")]
fn swap_share(request: i64, host: &HostSettings) -> i64 {
    let memory = host.memory_capacity as f64;
    if memory == 0.0 || request as f64 > memory {
        return 0;
    }
    (request as f64 / memory * host.swap_capacity as f64) as i64
}

/// A limit for each page size of the machine: the container's, else the pod's, else 0.
fn hugepage_limits(
    shared: Option<&ResourceList>,
    own: Option<&ResourceList>,
    sizes: &[String],
) -> Vec<HugepageLimit> {
    let lists = shared.into_iter().chain(own).flatten();
    let wanted: HashMap<String, u64> = lists.filter_map(|(name, amount)| hugepages(name, amount)).collect();
    let limit = |size: &String| HugepageLimit {
        page_size: size.clone(),
        limit: wanted.get(size).copied().unwrap_or_default(),
    };
    sizes.iter().map(limit).collect()
}

/// `hugepages-2Mi: 4Mi` as page size and bytes.
fn hugepages(name: &str, amount: &ApiQuantity) -> Option<(String, u64)> {
    let size = Quantity::parse(name.strip_prefix(HUGEPAGES_PREFIX)?).ok()?.value();
    let amount = Quantity::parse(&amount.0).ok()?.value();
    Some((huge_page_size(u64::try_from(size).ok()?), u64::try_from(amount).ok()?))
}

#[cfg(test)]
mod tests {
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
        let limits = of(json!({"limits": {"hugepages-2Mi": "4Mi", "hugepages-64Ki": "64Ki"}}), &host())
            .hugepage_limits;
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
        let resized = resized_resources(&pod, container, &enforced, &host());
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
}
