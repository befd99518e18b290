//! Settings of a pod's cgroup, from the resources of its containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::amounts::{Amounts, Together, containers_limit};
use super::{pod_limits, pod_requests, qos_class};
use crate::cgroup::{MIN_SHARES, PodResources, cpu_quota, cpu_shares};
use crate::pod::view::PodView;
use crate::types::QosClass;

/// The settings of the pod's cgroup, with CPU quota over `period`. CPU and memory are limited only if all containers have a
/// limit or the pod has one: otherwise a container without a limit would be limited to what the others leave.
pub fn pod_resources(pod: &Pod, period: Duration) -> PodResources {
    if qos_class(pod) == QosClass::BestEffort {
        return PodResources { cpu_shares: MIN_SHARES, cpu_quota: None, memory_limit: None };
    }
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
    PodResources {
        cpu_shares: cpu_shares(pod_cpu_request(pod)),
        cpu_quota: cpu.and_then(|milli_cpu| cpu_quota(milli_cpu, period)),
        memory_limit: memory,
    }
}

/// The pod's CPU request including overhead, in thousandths of a core. The weight of the burstable cgroup is the sum over
/// its pods.
pub fn pod_cpu_request(pod: &Pod) -> i64 {
    pod_requests(pod).plus(overhead(pod)).milli_cpu.unwrap_or(0)
}

/// The pod's overhead (`spec.overhead`).
fn overhead(pod: &Pod) -> Amounts {
    Amounts::of(PodView::from(pod).spec.overhead.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::resources::testing::pod;

    const PERIOD: Duration = Duration::from_millis(100);

    fn of(spec: Value) -> PodResources {
        pod_resources(&pod(spec), PERIOD)
    }

    fn limited(name: &str, limits: Value) -> Value {
        json!({"name": name, "resources": {"limits": limits, "requests": {"cpu": "100m"}}})
    }

    #[test]
    fn limits_apply_only_if_all_containers_have_them() {
        let both = json!({"cpu": "500m", "memory": "10Mi"});
        let resources = of(json!({"containers": [limited("a", both.clone()), limited("b", both.clone())]}));
        let expected =
            PodResources { cpu_shares: 204, cpu_quota: Some(100_000), memory_limit: Some(20 << 20) };
        assert_eq!(resources, expected);
        let resources =
            of(json!({"containers": [limited("a", both.clone()), limited("b", json!({"cpu": "500m"}))]}));
        assert_eq!(resources, PodResources { memory_limit: None, ..expected });
        let resources =
            of(json!({"containers": [limited("a", both.clone()), limited("b", json!({"cpu": "0"}))]}));
        assert_eq!(resources, PodResources { cpu_quota: None, memory_limit: None, ..expected });
        let init = json!({"initContainers": [{"name": "i"}], "containers": [limited("a", both)]});
        assert_eq!(of(init), PodResources { cpu_shares: 102, cpu_quota: None, memory_limit: None });
    }

    #[test]
    fn a_burstable_pod_without_limits_is_set_as_by_the_stock_kubelet() {
        let resources =
            of(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}));
        assert_eq!(resources, PodResources { cpu_shares: 102, cpu_quota: None, memory_limit: None });
    }

    #[test]
    fn best_effort_pods_have_minimal_shares() {
        let overhead = json!({"cpu": "1", "memory": "1Mi"});
        let resources = of(json!({"containers": [{"name": "c"}], "overhead": overhead}));
        assert_eq!(resources, PodResources { cpu_shares: 2, cpu_quota: None, memory_limit: None });
    }

    #[test]
    fn overhead_adds_to_requests_and_existing_limits() {
        let resources = of(json!({
            "containers": [limited("a", json!({"cpu": "400m"}))], "overhead": {"cpu": "100m", "memory": "1Mi"}
        }));
        assert_eq!(resources, PodResources { cpu_shares: 204, cpu_quota: Some(50_000), memory_limit: None });
    }

    #[test]
    fn pod_level_limits_need_no_container_limits() {
        let resources = of(json!({
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "8Mi"}},
            "containers": [{"name": "a"}, limited("b", json!({"memory": "4Mi"}))]
        }));
        let expected =
            PodResources { cpu_shares: 1024, cpu_quota: Some(200_000), memory_limit: Some(8 << 20) };
        assert_eq!(resources, expected);
    }
}
