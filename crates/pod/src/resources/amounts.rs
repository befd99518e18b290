//! CPU and memory of containers and pods. Quantities are validated when a pod is read; an invalid one counts as unset.

use std::collections::BTreeMap;

use hostlet_base::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::view::PodView;

type ResourceList = BTreeMap<String, ApiQuantity>;

/// CPU and memory in a list of requests or limits; `None` if not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a CPU.
    pub milli_cpu: Option<i64>,
    /// Bytes.
    pub memory: Option<i64>,
}

impl Amounts {
    /// Reads a resource list. Amounts that it lacks are `None`.
    pub fn of(list: Option<&ResourceList>) -> Self {
        let quantity = |name: &str| Quantity::parse(&list?.get(name)?.0).ok();
        Self {
            milli_cpu: quantity("cpu").map(|cpu| cpu.milli_value()),
            memory: quantity("memory").map(|memory| memory.value()),
        }
    }

    /// The requests of a container or pod.
    pub fn requested(resources: Option<&ResourceRequirements>) -> Self {
        Self::of(resources.and_then(|resources| resources.requests.as_ref()))
    }

    /// The limits of a container or pod.
    pub(super) fn limited(resources: Option<&ResourceRequirements>) -> Self {
        Self::of(resources.and_then(|resources| resources.limits.as_ref()))
    }

    fn merge(self, other: Self, merge: impl Fn(i64, i64) -> i64) -> Self {
        let both = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(merge(a, b)),
            (a, b) => a.or(b),
        };
        Self { milli_cpu: both(self.milli_cpu, other.milli_cpu), memory: both(self.memory, other.memory) }
    }

    /// A copy whose missing amounts are taken from `other`.
    fn or(self, other: Self) -> Self {
        Self { milli_cpu: self.milli_cpu.or(other.milli_cpu), memory: self.memory.or(other.memory) }
    }
}

/// Resource amounts that can be combined over the containers of a pod.
pub(super) trait Together: Clone + Default {
    /// The need of both at the same time.
    fn plus(self, other: Self) -> Self;
    /// The need of one after the other.
    fn max(self, other: Self) -> Self;
}

impl Together for Amounts {
    fn plus(self, other: Self) -> Self {
        self.merge(other, i64::saturating_add)
    }

    fn max(self, other: Self) -> Self {
        self.merge(other, i64::max)
    }
}

/// The pod's requests without overhead: pod-level requests, or the combined requests of its containers.
pub fn pod_requests(pod: &Pod) -> Amounts {
    let own = Amounts::requested(PodView::from(pod).spec.resources.as_ref());
    own.or(containers_request(pod))
}

/// The pod's limits without overhead: pod-level limits, or the sum of those its containers have.
pub fn pod_limits(pod: &Pod) -> Amounts {
    let own = Amounts::limited(PodView::from(pod).spec.resources.as_ref());
    own.or(containers_limit(pod).0)
}

/// The combined requests of the pod's containers.
pub(super) fn containers_request(pod: &Pod) -> Amounts {
    together(pod, |container| Amounts::requested(container.resources.as_ref()), |_| {})
}

/// The combined limits of the pod's containers, and whether each of them has a non-zero one. Limits of sidecars count towards
/// later init containers, as in `PodLimits` of k8s.io/component-helpers.
pub(super) fn containers_limit(pod: &Pod) -> (Amounts, Everywhere) {
    let mut everywhere = Everywhere { cpu: true, memory: true };
    let limits = together(
        pod,
        |container| Amounts::limited(container.resources.as_ref()),
        |amounts| {
            everywhere.cpu &= amounts.milli_cpu.unwrap_or(0) != 0;
            everywhere.memory &= amounts.memory.unwrap_or(0) != 0;
        },
    );
    (limits, everywhere)
}

/// Which limits all containers of a pod have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Everywhere {
    pub(super) cpu: bool,
    pub(super) memory: bool,
}

/// Combines the amounts of all containers: main containers run together with all sidecars, an init container together with
/// the sidecars before it; the pod needs the maximum. `each` receives the amounts that count for each container.
pub(super) fn together<T: Together>(
    pod: &Pod,
    list: impl Fn(&Container) -> T,
    mut each: impl FnMut(&T),
) -> T {
    let view = PodView::from(pod);
    let mut sidecars = T::default();
    let mut init_peak = T::default();
    for container in view.init_containers() {
        let running = sidecars.clone().plus(list(container));
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = running.clone();
        }
        each(&running);
        init_peak = init_peak.max(running);
    }
    let regular = view.spec.containers.iter().fold(sidecars, |sum, container| {
        let amounts = list(container);
        each(&amounts);
        sum.plus(amounts)
    });
    regular.max(init_peak)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::testing::pod;

    #[test]
    fn an_init_container_counts_together_with_the_sidecars_before_it() {
        let request = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
        let pod = pod(json!({
            "initContainers": [
                {"name": "early", "resources": request("1", "1Mi")},
                {"name": "side", "resources": request("200m", "10Mi"), "restartPolicy": "Always"},
                {"name": "late", "resources": request("900m", "5Mi")}
            ],
            "containers": [
                {"name": "a", "resources": request("500m", "20Mi")},
                {"name": "b", "resources": {"requests": {"memory": "1"}}}
            ]
        }));
        // CPU peaks while `late` runs together with `side`; memory when the main containers run.
        let expected = Amounts { milli_cpu: Some(1100), memory: Some((30 << 20) + 1) };
        assert_eq!(pod_requests(&pod), expected);
        assert_eq!(pod_limits(&pod), Amounts::default());
    }

    #[test]
    fn each_pod_level_resource_wins_over_the_containers() {
        let pod = pod(json!({
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "8Mi"}},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "3"}}}]
        }));
        assert_eq!(pod_requests(&pod), Amounts { milli_cpu: Some(2000), memory: Some(1 << 20) });
        assert_eq!(pod_limits(&pod), Amounts { milli_cpu: Some(3000), memory: Some(8 << 20) });
    }

    #[test]
    fn invalid_amounts_are_unset_and_huge_ones_do_not_overflow() {
        let huge = json!({"requests": {"cpu": "9E", "memory": "9E"}});
        let pod = pod(json!({"containers": [
            {"name": "a", "resources": huge}, {"name": "b", "resources": huge},
            {"name": "c", "resources": {"requests": {"cpu": "lots"}}}
        ]}));
        assert_eq!(pod_requests(&pod), Amounts { milli_cpu: Some(i64::MAX), memory: Some(i64::MAX) });
    }
}
