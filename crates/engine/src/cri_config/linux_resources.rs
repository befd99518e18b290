//! CPU, memory and huge page settings of sandboxes and containers, which the runtime writes to cgroups. Pure.

use std::collections::{BTreeMap, HashMap};

use hostlet_base::{QosClass, Quantity};
use hostlet_host::cgroup::{MIN_SHARES, PodResources, cpu_quota, cpu_shares, huge_page_size};
use hostlet_pod::resources::{
    Amounts, Enforced, may_swap, oom_score_adj, pod_limits, pod_requests, qos_class,
};
use hostlet_resources::GrantedCpus;
use hostlet_runtime::cri::wire::{HugepageLimit, LinuxContainerResources, PodSandboxConfig};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::HostSettings;

type ResourceList = BTreeMap<String, ApiQuantity>;

/// The CRI's CPU quota of a container that has all of its CPUs.
const UNLIMITED: i64 = -1;

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

/// The settings with the CPUs and the NUMA nodes that the container was granted. CPUs that it has for itself need no quota, which would
/// throttle it for nothing (upstream `DisableCPUQuotaWithExclusiveCPUs`).
pub(super) fn granted_resources(
    mut resources: LinuxContainerResources,
    cpus: Option<GrantedCpus>,
    memory_nodes: Option<String>,
) -> LinuxContainerResources {
    if let Some(GrantedCpus { list, are_exclusive }) = cpus {
        resources.cpuset_cpus = list;
        if are_exclusive {
            unlimit(&mut resources);
        }
    }
    resources.cpuset_mems = memory_nodes.unwrap_or_default();
    resources
}

/// Removes the CPU quota of a sandbox of whose containers one has its CPUs for itself.
pub(crate) fn remove_quota(sandbox: &mut PodSandboxConfig) {
    if let Some(resources) = sandbox.linux.as_mut().and_then(|linux| linux.resources.as_mut()) {
        unlimit(resources);
    }
}

/// Replaces the CPU quota, where there are quotas, by none.
fn unlimit(resources: &mut LinuxContainerResources) {
    if resources.cpu_period != 0 {
        resources.cpu_quota = UNLIMITED;
    }
}

/// Settings of a running container whose CPU and memory become `enforced`; the others are as it was created, on `cpus`.
pub(crate) fn resized_resources(
    pod: &Pod,
    container: &Container,
    enforced: &Enforced,
    cpus: Option<GrantedCpus>,
    host: &HostSettings,
) -> LinuxContainerResources {
    let resources = enforced.set_in(container.resources.as_ref());
    let container =
        Container { name: container.name.clone(), resources: Some(resources), ..Container::default() };
    granted_resources(container_resources(pod, &container, host), cpus, None)
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
#[path = "linux_resources_tests.rs"]
mod tests;
