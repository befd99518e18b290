//! OOM scores: which processes the kernel kills first when memory runs out (Kubernetes docs, "Node-pressure Eviction", node
//! out of memory behavior).

use hostlet_base::QosClass;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::amounts::{Amounts, containers_request};
use super::qos_class;
use crate::is_critical;
use crate::view::PodView;

const GUARANTEED_SCORE: i64 = -997;
const BEST_EFFORT_SCORE: i64 = 1000;
const NODE_CRITICAL_CLASS: &str = "system-node-critical";

/// The `oom_score_adj` of a container's processes, from -1000 (never killed) to 1000 (killed first). For a burstable
/// container it decreases with the fraction of the machine's memory (`memory_capacity` bytes) that it requests; a sidecar's
/// is never higher than that of the main containers.
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity: u64) -> i64 {
    if is_node_critical(pod) {
        return GUARANTEED_SCORE;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => GUARANTEED_SCORE,
        QosClass::BestEffort => BEST_EFFORT_SCORE,
        QosClass::Burstable => burstable_score(pod, container, memory_capacity),
    }
}

fn burstable_score(pod: &Pod, container: &Container, memory_capacity: u64) -> i64 {
    let view = PodView::from(pod);
    let request =
        |container: &Container| Amounts::requested(container.resources.as_ref()).memory.unwrap_or(0);
    let sidecar = container.restart_policy.as_deref() == Some("Always")
        && view.init_containers().iter().any(|init| init.name == container.name);
    let least_regular = view.spec.containers.iter().map(request).min().unwrap_or(0);
    let own = if sidecar { request(container).max(least_regular) } else { request(container) };
    let memory = own.saturating_add(share_of_the_rest(pod));
    let capacity = i128::from(memory_capacity.max(1));
    let protected = i64::try_from(i128::from(memory) * 1000 / capacity).unwrap_or(i64::MAX);
    // Strictly between guaranteed and best effort.
    1000_i64.saturating_sub(protected).clamp(1000 + GUARANTEED_SCORE, BEST_EFFORT_SCORE - 1)
}

/// An equal share of the pod-level request that exceeds the containers' requests (KEP-2837).
fn share_of_the_rest(pod: &Pod) -> i64 {
    let view = PodView::from(pod);
    let containers = view.spec.containers.len() + view.init_containers().len();
    match Amounts::requested(view.spec.resources.as_ref()).memory {
        Some(whole) if whole > 0 && containers > 0 => {
            let rest = whole.saturating_sub(containers_request(pod).memory.unwrap_or(0));
            rest / i64::try_from(containers).unwrap_or(i64::MAX)
        }
        Some(_) | None => 0,
    }
}

/// Whether the pod is node-critical. The class name alone does not count: any manifest may claim it, but only the API
/// server's admission assigns its priority. Static pods are critical anyway.
fn is_node_critical(pod: &Pod) -> bool {
    is_critical(pod) && PodView::from(pod).spec.priority_class_name.as_deref() == Some(NODE_CRITICAL_CLASS)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::testing::pod;

    const CAPACITY: u64 = 4 << 30;

    fn scores(spec: Value) -> Vec<i64> {
        let pod = pod(spec);
        let view = PodView::from(&pod);
        let containers = view.init_containers().iter().chain(&view.spec.containers);
        containers.map(|container| oom_score_adj(&pod, container, CAPACITY)).collect()
    }

    fn requesting(memory: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"memory": memory}}})
    }

    #[test]
    fn each_class_has_its_score() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = json!({"name": "c", "resources": {"requests": both, "limits": both}});
        assert_eq!(scores(json!({"containers": [guaranteed]})), [-997]);
        assert_eq!(scores(json!({"containers": [{"name": "c"}]})), [1000]);
        let sized = ["1Gi", "4Gi", "64Gi", "1", "0"].map(requesting);
        assert_eq!(scores(json!({"containers": sized})), [750, 3, 3, 999, 999]);
    }

    #[test]
    fn a_sidecar_is_not_killed_before_the_main_containers() {
        let mut small = requesting("1Mi");
        small["name"] = json!("small");
        let init = small.clone();
        small["name"] = json!("side");
        small["restartPolicy"] = json!("Always");
        let spec =
            json!({"initContainers": [small, init], "containers": [requesting("1Gi"), requesting("2Gi")]});
        assert_eq!(scores(spec), [750, 999, 750, 500]);
    }

    #[test]
    fn pod_level_memory_is_shared_among_containers() {
        let spec = json!({
            "resources": {"requests": {"memory": "3Gi"}},
            "containers": [requesting("1Gi"), {"name": "d"}]
        });
        assert_eq!(scores(spec), [1000 - 500, 1000 - 250]);
    }

    #[test]
    fn node_critical_needs_more_than_the_class_name() {
        let named = json!({"priorityClassName": "system-node-critical", "containers": [{"name": "c"}]});
        let mut critical = named.clone();
        critical["priority"] = json!(2_000_001_000);
        let mut merely_high = critical.clone();
        merely_high["priorityClassName"] = json!("system-cluster-critical");
        assert_eq!(scores(named), [1000]);
        assert_eq!(scores(critical), [-997]);
        assert_eq!(scores(merely_high), [1000]);
    }
}
