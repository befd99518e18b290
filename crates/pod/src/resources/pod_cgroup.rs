//! Settings of a pod's cgroup, from the resources of its containers.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::resources::HUGE_PAGES;
use hostlet_base::{MemoryQos, QosClass, Quantity, ResourceList};
use hostlet_host::cgroup::{MIN_SHARES, PodResources, cpu_quota, cpu_shares};
use k8s_openapi::api::core::v1::Pod;

use super::Enforced;
use super::amounts::{Amounts, Together, containers_limit};
use super::{pod_limits, pod_requests, qos_class, requested_resources};
use crate::view::PodView;

impl Enforced {
    /// CPU and memory of the pod as a whole, including overhead. They are limited only if all containers have a limit or the pod has
    /// one: otherwise a container without a limit would be limited to what the others leave.
    pub fn of_pod(pod: &Pod) -> Self {
        let own = Amounts::limited(PodView::from(pod).spec.resources.as_ref());
        let (limits, everywhere) = (pod_limits(pod), containers_limit(pod).1);
        let overhead = overhead(pod);
        let set = |amount: Option<i64>| amount.filter(|amount| *amount > 0);
        let limit = |sum: Option<i64>, overhead: Option<i64>, everywhere: bool, own: Option<i64>| {
            let limit = set(sum)?.saturating_add(overhead.unwrap_or(0));
            (everywhere || set(own).is_some()).then_some(limit)
        };
        let cpu = limit(limits.milli_cpu, overhead.milli_cpu, everywhere.cpu, own.milli_cpu);
        let memory = limit(limits.memory, overhead.memory, everywhere.memory, own.memory);
        Self {
            cpu_request: pod_cpu_request(pod),
            cpu_limit: cpu.unwrap_or(0),
            memory_request: pod_memory_request(pod),
            memory_limit: memory.unwrap_or(0),
        }
    }
}

/// The settings of the pod's cgroup for this CPU and memory of the whole pod, with CPU quota over `period`. Without `memory_qos` no
/// memory is protected.
pub fn pod_resources(
    pod: &Pod,
    whole: &Enforced,
    period: Duration,
    memory_qos: Option<&MemoryQos>,
) -> PodResources {
    let qos = qos_class(pod);
    let huge_pages = huge_pages(&requested_resources(pod));
    if qos == QosClass::BestEffort {
        return PodResources { cpu_shares: MIN_SHARES, huge_pages, ..PodResources::default() };
    }
    let limit = |amount: i64| Some(amount).filter(|amount| *amount > 0);
    let (memory, request) = (limit(whole.memory_limit), whole.memory_request);
    // The containers of other pods are throttled one by one.
    let throttled = memory_qos.filter(|_| is_whole(pod) && memory != Some(request));
    PodResources {
        cpu_shares: cpu_shares(whole.cpu_request),
        cpu_quota: limit(whole.cpu_limit).and_then(|milli_cpu| cpu_quota(milli_cpu, period)),
        memory_limit: memory,
        memory_protection: memory_qos.map(|rules| rules.protection(qos, request)).unwrap_or_default(),
        memory_high: throttled.and_then(|rules| rules.throttled_above(request, memory?)),
        huge_pages,
    }
}

/// The pod's CPU request including overhead, in thousandths of a core. The weight of the burstable cgroup is the sum over
/// its pods.
pub fn pod_cpu_request(pod: &Pod) -> i64 {
    pod_requests(pod).plus(overhead(pod)).milli_cpu.unwrap_or(0)
}

/// The pod's memory request including overhead, in bytes. The protected memory of its class is the sum over its pods.
pub fn pod_memory_request(pod: &Pod) -> i64 {
    pod_requests(pod).plus(overhead(pod)).memory.unwrap_or(0)
}

/// Whether the pod has resources as a whole (upstream `IsPodLevelResourcesSet`).
fn is_whole(pod: &Pod) -> bool {
    let own = PodView::from(pod).spec.resources.as_ref();
    own.is_some_and(|own| [&own.requests, &own.limits].into_iter().flatten().any(|list| !list.is_empty()))
}

/// The bytes in huge pages by page size.
pub fn huge_pages(resources: &ResourceList) -> BTreeMap<u64, i64> {
    let entry = |(name, amount): (&str, Quantity)| {
        let size = Quantity::parse(name.strip_prefix(HUGE_PAGES)?).ok()?;
        Some((u64::try_from(size.value()).ok()?, amount.value()))
    };
    resources.iter().filter_map(entry).collect()
}

/// The pod's overhead (`spec.overhead`).
fn overhead(pod: &Pod) -> Amounts {
    Amounts::of(PodView::from(pod).spec.overhead.as_ref())
}

#[cfg(test)]
#[path = "pod_cgroup_tests.rs"]
mod tests;
