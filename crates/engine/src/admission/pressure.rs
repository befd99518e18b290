//! Which pods a node under pressure still admits (upstream: the eviction manager's `Admit`). Pure.

use hostlet_base::node::{Pressure, Pressures};
use hostlet_base::{QosClass, reasons};
use hostlet_pod::resources::qos_class;
use hostlet_pod::view::PodView;
use hostlet_pod::{Rejection, is_critical};
use k8s_openapi::api::core::v1::{Pod, Taint};

use super::tolerations::tolerates;

/// The taint that the node lifecycle controller puts on a node under memory pressure.
const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// The rejection of the pod because of pressure; `None` if it is admitted. Critical pods are always admitted. Memory pressure
/// alone rejects only best-effort pods that do not tolerate its taint.
pub(super) fn rejection(pod: &Pod, pressures: &Pressures) -> Option<Rejection> {
    if pressures.is_empty() || is_critical(pod) {
        return None;
    }
    let is_memory_alone = pressures.iter().eq([&Pressure::Memory]);
    if is_memory_alone && (qos_class(pod) != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
        return None;
    }
    let conditions: Vec<&str> = pressures.iter().map(|pressure| pressure.condition()).collect();
    Some(Rejection::new(reasons::EVICTED, format!("The node had condition: [{}]. ", conditions.join(" "))))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let taint =
        Taint { key: MEMORY_PRESSURE_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let tolerations = PodView::from(pod).spec.tolerations.as_deref().unwrap_or_default();
    tolerations.iter().any(|toleration| tolerates(toleration, &taint))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use hostlet_base::CONFIG_SOURCE_ANNOTATION;

    const MEMORY: &[Pressure] = &[Pressure::Memory];

    /// A best-effort pod from the API server with these fields in its spec.
    fn pod(spec: &Value) -> Pod {
        let annotations = json!({CONFIG_SOURCE_ANNOTATION: "api"});
        let mut pod = json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [{"name": "c"}]}});
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn message(pod: &Pod, pressures: &[Pressure]) -> Option<String> {
        let rejection = rejection(pod, &pressures.iter().copied().collect())?;
        assert_eq!(rejection.reason, "Evicted");
        Some(rejection.message)
    }

    #[test]
    fn a_node_without_pressure_admits_any_pod() {
        assert_eq!(message(&pod(&json!({})), &[]), None);
    }

    #[test]
    fn memory_pressure_keeps_out_best_effort_pods_that_do_not_tolerate_it() {
        let expected = Some("The node had condition: [MemoryPressure]. ".to_owned());
        assert_eq!(message(&pod(&json!({})), MEMORY), expected);
        let requests = json!({"requests": {"memory": "1Mi"}});
        let burstable = pod(&json!({"containers": [{"name": "c", "resources": requests}]}));
        assert_eq!(message(&burstable, MEMORY), None);
        let tolerant = |key: &str, effect: &str| {
            pod(&json!({"tolerations": [{"key": key, "operator": "Exists", "effect": effect}]}))
        };
        assert_eq!(message(&tolerant(MEMORY_PRESSURE_TAINT, "NoSchedule"), MEMORY), None);
        assert_eq!(message(&tolerant(MEMORY_PRESSURE_TAINT, ""), MEMORY), None);
        assert_eq!(message(&tolerant(MEMORY_PRESSURE_TAINT, "NoExecute"), MEMORY), expected);
        assert_eq!(message(&tolerant("node.kubernetes.io/disk-pressure", ""), MEMORY), expected);
    }

    #[test]
    fn other_pressure_keeps_out_all_but_critical_pods() {
        let requests = json!({"requests": {"memory": "1Mi"}});
        let burstable = json!({"containers": [{"name": "c", "resources": requests}], "tolerations": [{"operator": "Exists"}]});
        for (pressures, conditions) in [
            (&[Pressure::Disk][..], "DiskPressure"),
            (&[Pressure::Pid], "PIDPressure"),
            (&[Pressure::Disk, Pressure::Memory], "MemoryPressure DiskPressure"),
        ] {
            let expected = Some(format!("The node had condition: [{conditions}]. "));
            assert_eq!(message(&pod(&burstable), pressures), expected);
            assert_eq!(message(&pod(&json!({"priority": 2_000_000_000})), pressures), None);
            let mut of_manifest = pod(&json!({}));
            of_manifest.metadata.annotations =
                Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), "file".to_owned())].into());
            assert_eq!(message(&of_manifest, pressures), None);
        }
    }
}
