//! QoS class and OOM scores of pods (Kubernetes docs, "Pod Quality of Service Classes"; "Node-pressure Eviction").

use k8s_openapi::api::core::v1::{Container, Pod};

use super::amounts::Amounts;
use crate::pod::view::PodView;
use crate::types::QosClass;

const GUARANTEED_SCORE: i64 = -997;
const BEST_EFFORT_SCORE: i64 = 1000;

/// The QoS class of a pod. Only cpu and memory count, and only amounts above zero.
pub fn qos_class(pod: &Pod) -> QosClass {
    let view = PodView::from(pod);
    let of_container = |c: &Container| {
        let resources = c.resources.as_ref();
        (
            Amounts::of(resources.and_then(|r| r.requests.as_ref())),
            Amounts::of(resources.and_then(|r| r.limits.as_ref())),
        )
    };
    let amounts: Vec<_> = match &view.spec.resources {
        Some(own) => vec![(Amounts::of(own.requests.as_ref()), Amounts::of(own.limits.as_ref()))],
        None => view.spec.containers.iter().chain(view.init_containers()).map(of_container).collect(),
    };
    let set = |amount: Option<i64>| amount.unwrap_or(0) > 0;
    let any = |a: &Amounts| set(a.milli_cpu) || set(a.memory);
    if !amounts.iter().any(|(requests, limits)| any(requests) || any(limits)) {
        return QosClass::BestEffort;
    }
    let guaranteed = amounts
        .iter()
        .all(|(requests, limits)| set(limits.milli_cpu) && set(limits.memory) && requests == limits);
    if guaranteed { QosClass::Guaranteed } else { QosClass::Burstable }
}

/// How readily the kernel kills a container's processes when memory runs out: from -1000 (never) to 1000 (first).
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity: u64) -> i64 {
    let view = PodView::from(pod);
    if view.spec.priority_class_name.as_deref() == Some("system-node-critical") {
        return GUARANTEED_SCORE;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED_SCORE,
        QosClass::BestEffort => return BEST_EFFORT_SCORE,
        QosClass::Burstable => {}
    }
    let request = |c: &Container| {
        Amounts::of(c.resources.as_ref().and_then(|r| r.requests.as_ref())).memory.unwrap_or(0)
    };
    let mut memory = request(container);
    let sidecar = container.restart_policy.as_deref() == Some("Always")
        && view.init_containers().iter().any(|init| init.name == container.name);
    if sidecar {
        memory = memory.max(view.spec.containers.iter().map(request).min().unwrap_or(0));
    }
    let capacity = i64::try_from(memory_capacity).unwrap_or(i64::MAX).max(1);
    (1000 - memory.saturating_mul(1000) / capacity).clamp(1000 + GUARANTEED_SCORE, BEST_EFFORT_SCORE - 1)
}
