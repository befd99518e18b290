//! Identity, source and importance of a pod, read from its object.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use hostlet_base::{CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION, PodRef, PodUid};

/// Namespace, name and UID of a pod; empty where the object has none, which validation rules out.
pub fn pod_ref(pod: &Pod) -> PodRef {
    fn text(part: &Option<String>) -> &str {
        part.as_deref().unwrap_or_default()
    }
    let metadata = &pod.metadata;
    PodRef::new(text(&metadata.namespace), text(&metadata.name), text(&metadata.uid))
}

/// `metadata.uid`; empty if the pod has none.
pub fn pod_uid(pod: &Pod) -> PodUid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}

/// Pods with at least this priority are critical (`scheduling.SystemCriticalPriority`).
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Whether the pod is critical: a static pod, or one with a priority of the system classes (upstream `IsCriticalPod`).
pub fn is_critical(pod: &Pod) -> bool {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static(pod) || priority.is_some_and(|priority| priority >= CRITICAL_PRIORITY)
}

/// Priority of the class `system-node-critical` (upstream's constant).
const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;

/// The rank of a pod among those that wait for the same resource; a more important pod has a smaller rank. Static pods rank as
/// node-critical, and among themselves by the priority in their manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(Reverse<(i32, i32)>);

impl Rank {
    /// The rank of a pod.
    pub fn of(pod: &Pod) -> Self {
        let own = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let rank = if is_static(pod) { own.max(NODE_CRITICAL_PRIORITY) } else { own };
        Self(Reverse((rank, own)))
    }

    /// The rank of an API server's pod with this priority.
    #[cfg(any(test, feature = "fakes"))]
    pub fn of_priority(priority: i32) -> Self {
        Self(Reverse((priority, priority)))
    }
}

/// Whether the pod comes from a source on this host (a file or a URL) rather than from the API server.
pub fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(CONFIG_SOURCE_ANNOTATION)).is_some_and(|source| source != "api")
}

/// When the pod was first seen by its source.
pub fn seen_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SEEN_ANNOTATION)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn static_pods_rank_as_critical_and_then_by_priority() {
        let of = |source: &str, priority: Option<i32>| {
            let mut pod = pod("p", "u", "Always", &["c"]);
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), source.to_owned());
            pod.spec.get_or_insert_default().priority = priority;
            Rank::of(&pod)
        };
        let ranked = [
            of("file", Some(i32::MAX)),
            of("api", Some(NODE_CRITICAL_PRIORITY)),
            of("file", Some(7)),
            of("file", None),
            of("http", Some(-1)),
            of("api", Some(CRITICAL_PRIORITY)),
            of("api", Some(1)),
            of("api", None),
            of("api", Some(-1)),
        ];
        assert!(ranked.is_sorted_by(|a, b| a < b), "{ranked:?}");
        assert_eq!(of("api", None), Rank::default());
    }
}
