//! CPU, memory and huge page settings of sandboxes and containers, which the runtime writes to cgroups. Pure.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::HostSettings;
use super::kernel::page_size_name;
use crate::cgroup::{cpu_quota, cpu_shares};
use crate::cri::wire::{HugepageLimit, LinuxContainerResources};
use crate::pod::resources::{Amounts, oom_score_adj, pod_limits, pod_requests};
use crate::types::Quantity;

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
    forbid_swap(&mut resources, host);
    set_memory_qos(&mut resources, host);
    resources
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
        resources.cpu_period = i64::try_from(host.cpu_cfs_quota_period.as_micros()).unwrap_or(i64::MAX);
        resources.cpu_quota = cpu_quota(cpu_limit, host.cpu_cfs_quota_period).unwrap_or(0);
    }
    if host.cgroup_v2 && !host.single_process_oom_kill {
        resources.unified = HashMap::from([("memory.oom.group".to_owned(), "1".to_owned())]);
    }
    resources
}

/// Memory protection and throttling on v2 (KEP-2570), which no policy of hostlet asks for: what an earlier policy had set is
/// reset, as by the stock kubelet.
fn set_memory_qos(resources: &mut LinuxContainerResources, host: &HostSettings) {
    if !host.cgroup_v2 {
        return;
    }
    let reset: &[(&str, &str)] =
        if host.memory_qos { &[("memory.min", "0"), ("memory.low", "0")] } else { &[("memory.high", "max")] };
    resources.unified.extend(reset.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
}

/// Disables swap: on v2 its maximum is 0; on v1 the limit of memory plus swap equals that of memory.
fn forbid_swap(resources: &mut LinuxContainerResources, host: &HostSettings) {
    if !host.kernel.swap_controller {
        return;
    }
    if host.cgroup_v2 {
        resources.unified.insert("memory.swap.max".to_owned(), "0".to_owned());
    } else {
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
    }
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
    Some((page_size_name(u64::try_from(size).ok()?), u64::try_from(amount).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cri_config::testing::{full_pod, host, pod};

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
        single.memory_qos = false;
        let reset = [("memory.high".to_owned(), "max".to_owned())];
        assert_eq!(of(json!({}), &single).unified, HashMap::from(reset));
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
}
