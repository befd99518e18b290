//! Reading who a pod is from its object.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::types::{CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION, PodRef, PodUid};

/// Namespace, name and UID of a pod; empty texts where the object has none, which validation has ruled out.
pub fn pod_ref(pod: &Pod) -> PodRef {
    fn text(part: &Option<String>) -> &str {
        part.as_deref().unwrap_or_default()
    }
    let metadata = &pod.metadata;
    PodRef::new(text(&metadata.namespace), text(&metadata.name), text(&metadata.uid))
}

/// The UID of a pod alone.
pub fn pod_uid(pod: &Pod) -> PodUid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}

/// Pods are critical from this priority on (`scheduling.SystemCriticalPriority`).
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Whether others give way to the pod: one of this host's own sources, or one of a priority that only admission gives.
pub fn is_critical(pod: &Pod) -> bool {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static(pod) || priority.is_some_and(|priority| priority >= CRITICAL_PRIORITY)
}

/// Priority of the class `system-node-critical` (upstream's constant).
const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;

/// How important a pod is among those that wait for the same; the more important, the smaller. Static pods rank as critical
/// for the node, as they have no priority but what their manifests say; among themselves that decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(Reverse<(i32, i32)>);

impl Rank {
    /// The rank of a pod.
    pub fn of(pod: &Pod) -> Self {
        let own = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let rank = if is_static(pod) { own.max(NODE_CRITICAL_PRIORITY) } else { own };
        Self(Reverse((rank, own)))
    }

    /// That of a pod of the API server's with this priority.
    #[cfg(test)]
    pub(crate) fn of_priority(priority: i32) -> Self {
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
    use crate::pod::testing::pod;

    #[test]
    fn static_pods_rank_as_critical_and_among_themselves_by_their_priority() {
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
