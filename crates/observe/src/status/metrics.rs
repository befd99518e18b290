//! Metrics that are read from the statuses: of in-place resizes, with upstream's names, and why containers wait.

use std::collections::BTreeMap;

use hostlet_pod::priority_bucket;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use super::StatusCache;
use super::conditions::{RESIZE_IN_PROGRESS, RESIZE_PENDING};

/// Registers the numbers of pending resizes and of those in progress.
pub fn register_resizes(metrics: &Metrics, cache: &StatusCache) {
    let of = cache.clone();
    metrics.register_gauge("kubelet_pod_pending_resizes", "Number of pending resizes for pods.", move || {
        let mut counts = BTreeMap::new();
        for entry in of.all() {
            if let Some(pending) = condition(&entry.status, RESIZE_PENDING) {
                let reason = pending.reason.as_deref().unwrap_or_default().to_lowercase();
                *counts.entry((reason, priority_bucket(&entry.pod))).or_insert(0) += 1;
            }
        }
        let reading = |((reason, bucket), count): ((String, &str), u64)| {
            (vec![("reason", reason), ("priority_bucket", bucket.to_owned())], count)
        };
        counts.into_iter().map(reading).collect()
    });
    let of = cache.clone();
    let help = "Number of in-progress resizes for pods.";
    metrics.register_gauge("kubelet_pod_in_progress_resizes", help, move || {
        let statuses = of.all();
        let count =
            statuses.iter().filter(|entry| condition(&entry.status, RESIZE_IN_PROGRESS).is_some()).count();
        vec![(Vec::new(), count as u64)]
    });
}

/// Registers how many containers wait, and for what.
pub fn register_waiting(metrics: &Metrics, cache: &StatusCache) {
    let of = cache.clone();
    let help =
        "Containers that wait, by the reason in their status. Those of pods that have ended do not count.";
    metrics.register_gauge("hostlet_containers_waiting", help, move || {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for entry in of.all() {
            let status = &entry.status;
            if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
                continue;
            }
            let lists = [&status.init_container_statuses, &status.container_statuses];
            for container in lists.into_iter().flatten().flatten() {
                if let Some(waiting) = container.state.as_ref().and_then(|state| state.waiting.as_ref()) {
                    *counts.entry(waiting.reason.clone().unwrap_or_default()).or_default() += 1;
                }
            }
        }
        counts.into_iter().map(|(reason, count)| (vec![("reason", reason)], count)).collect()
    });
}

fn condition<'s>(status: &'s PodStatus, type_: &str) -> Option<&'s PodCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hostlet_pod::AdmittedPod;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::status::{LifecycleSummary, PodStatusEntry};

    #[test]
    fn waiting_containers_are_counted_by_reason() {
        let (metrics, cache) = (Metrics::default(), StatusCache::default());
        register_waiting(&metrics, &cache);
        let report = |uid: &str, phase: &str, states: Value| {
            let one = |state: &Value| json!({"name": "c", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0});
            let statuses: Vec<Value> = states.as_array().unwrap().iter().map(one).collect();
            let pod = json!({"metadata": {"name": uid, "namespace": "ns", "uid": uid}, "spec": {"containers": [{"name": "c"}]}});
            let status = json!({"phase": phase, "containerStatuses": statuses});
            cache.report(PodStatusEntry {
                pod: AdmittedPod::new(serde_json::from_value::<Pod>(pod).unwrap()),
                status: Arc::new(serde_json::from_value::<PodStatus>(status).unwrap()),
                terminating_since: None,
                lifecycle: LifecycleSummary::Active,
                has_released: false,
            });
        };
        let waits = |reason: &str| json!({"waiting": {"reason": reason}});
        report("a", "Running", json!([waits("CrashLoopBackOff"), {"running": {}}]));
        report("b", "Pending", json!([waits("CrashLoopBackOff"), waits("ImagePullBackOff")]));
        report("c", "Failed", json!([waits("ContainerCreating")]));
        let text = metrics.encode();
        for line in ["{reason=\"CrashLoopBackOff\"} 2", "{reason=\"ImagePullBackOff\"} 1"] {
            assert!(text.contains(&format!("hostlet_containers_waiting{line}\n")), "{text}");
        }
        assert!(!text.contains("ContainerCreating"), "{text}");
    }
}
