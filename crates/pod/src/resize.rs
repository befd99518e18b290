//! What an in-place resize (KEP-1287) has come to: the desired resources of a pod are in its spec, the *allocated* ones
//! are what this node has accepted, the *actuated* ones are what its running containers have. Plain data and comparisons.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use serde::Serialize;

use super::view::PodView;

/// Why a requested resize was not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingResizeReason {
    /// The resize does not fit now, and is retried.
    Deferred,
    /// The resize can never be done on this node.
    Infeasible,
}

impl PendingResizeReason {
    /// The reason in the condition `PodResizePending`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "Deferred",
            Self::Infeasible => "Infeasible",
        }
    }
}

/// A requested resize that was not allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingResize {
    /// The reason in the condition `PodResizePending`.
    pub reason: PendingResizeReason,
    /// What is missing.
    pub message: String,
    /// The generation of the pod that requests it.
    pub generation: Option<i64>,
    /// Since when it is pending for this reason.
    pub since: Timestamp,
}

/// The resizes of an admitted pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeState {
    /// How many resizes this daemon has allocated to the pod.
    pub allocations: u32,
    /// The requested resize that was not allocated.
    pub pending: Option<PendingResize>,
}

/// The pod with the resources of `allocated`, an earlier version of it; `None` if it has no others.
pub fn with_allocation(pod: &Pod, allocated: &Pod) -> Option<Pod> {
    let (Some(spec), Some(before)) = (&pod.spec, &allocated.spec) else { return None };
    let mut kept = spec.clone();
    let mut differs = keep(&mut kept.resources, &before.resources);
    differs |= keep_all(&mut kept.containers, &before.containers);
    let inits = before.init_containers.as_deref().unwrap_or_default();
    differs |= keep_all(kept.init_containers.as_deref_mut().unwrap_or_default(), inits);
    differs.then(|| Pod { spec: Some(kept), metadata: pod.metadata.clone(), status: pod.status.clone() })
}

fn keep_all(containers: &mut [Container], allocated: &[Container]) -> bool {
    let mut differs = false;
    for container in containers {
        if let Some(allocated) = allocated.iter().find(|allocated| allocated.name == container.name) {
            differs |= keep(&mut container.resources, &allocated.resources);
        }
    }
    differs
}

fn keep<T: Clone + PartialEq>(desired: &mut T, allocated: &T) -> bool {
    let differs = desired != allocated;
    if differs {
        desired.clone_from(allocated);
    }
    differs
}

/// Upstream's class of the pod's priority, a label of metrics.
pub fn priority_bucket(pod: &Pod) -> &'static str {
    match PodView::from(pod).spec.priority.unwrap_or(0) {
        2_000_000_000.. => "system-critical",
        100_000.. => "high",
        1.. => "medium",
        0 => "normal",
        -999.. => "low",
        _ => "very-low",
    }
}

/// The resources of a pod's containers in the format of upstream's events.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'p> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<ContainerSummary<'p>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<ContainerSummary<'p>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'p str,
}

#[derive(Serialize)]
struct ContainerSummary<'p> {
    name: &'p str,
    resources: ResourceRequirements,
}

/// The message of upstream's event about a resize: what happened to it, its generation, the resources of `pod`, and an error if
/// there is one.
pub fn resize_message(what: &str, pod: &Pod, generation: Option<i64>, error: &str) -> String {
    fn all(containers: &[Container]) -> Vec<ContainerSummary<'_>> {
        let resources = |container: &Container| container.resources.clone().unwrap_or_default();
        containers.iter().map(|it| ContainerSummary { name: &it.name, resources: resources(it) }).collect()
    }
    let spec = pod.spec.as_ref();
    let summary = Summary {
        init_containers: spec.and_then(|spec| spec.init_containers.as_deref()).map(all).unwrap_or_default(),
        containers: spec.map(|spec| all(&spec.containers)).unwrap_or_default(),
        generation: generation.unwrap_or_default(),
        error,
    };
    // Plain data of strings and numbers, which always becomes JSON.
    format!("Pod resize {what}: {}", serde_json::to_string(&summary).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(cpu: &str, init: &str, whole: &str) -> Pod {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let value: Value = json!({"metadata": {"name": "p", "generation": 2}, "spec": {
            "resources": resources(whole),
            "initContainers": [{"name": "i", "resources": resources(init)}],
            "containers": [{"name": "a", "resources": resources(cpu)}, {"name": "b"}]
        }});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_allocation_covers_the_pod_and_each_container() {
        let allocated = pod("1", "1", "1");
        assert_eq!(with_allocation(&allocated, &allocated), None);
        for desired in [pod("2", "1", "1"), pod("1", "2", "1"), pod("1", "1", "2")] {
            assert_eq!(with_allocation(&desired, &allocated), Some(allocated.clone()));
        }
    }

    #[test]
    fn priorities_have_upstreams_classes() {
        let all = [
            (None, "normal"),
            (Some(2_000_001_000), "system-critical"),
            (Some(1_999_999_999), "high"),
            (Some(99_999), "medium"),
            (Some(0), "normal"),
            (Some(-999), "low"),
            (Some(-1000), "very-low"),
        ];
        for (priority, bucket) in all {
            let mut pod = pod("1", "1", "1");
            pod.spec.as_mut().unwrap().priority = priority;
            assert_eq!(priority_bucket(&pod), bucket, "{priority:?}");
        }
    }

    /// As a stock kubelet 1.37.2 writes them.
    #[test]
    fn events_show_the_resources_of_all_containers() {
        let pod = pod("100m", "1", "1");
        assert_eq!(
            resize_message("completed", &pod, Some(1), ""),
            r#"Pod resize completed: {"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}],"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}},{"name":"b","resources":{}}],"generation":1}"#
        );
        let failed = resize_message("error", &Pod::default(), None, "no");
        assert_eq!(failed, r#"Pod resize error: {"generation":0,"error":"no"}"#);
    }
}
