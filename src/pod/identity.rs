//! Reading who a pod is from its object.

use k8s_openapi::api::core::v1::Pod;

use crate::types::{CONFIG_SOURCE_ANNOTATION, PodRef, PodUid};

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

/// Whether the pod comes from a source on this host (a file or a URL) rather than from the API server.
pub fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(CONFIG_SOURCE_ANNOTATION)).is_some_and(|source| source != "api")
}
