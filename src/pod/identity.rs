//! Reading who a pod is from its object.

use k8s_openapi::api::core::v1::Pod;

use crate::types::{CONFIG_SOURCE_ANNOTATION, PodRef};

/// Namespace, name and UID of a pod; empty texts where the object has none, which validation has ruled out.
pub fn pod_ref(pod: &Pod) -> PodRef {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    PodRef::new(&text(&pod.metadata.namespace), &text(&pod.metadata.name), &text(&pod.metadata.uid))
}

/// Whether the pod comes from a source on this host (a file or a URL) rather than from the API server.
pub fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(CONFIG_SOURCE_ANNOTATION)).is_some_and(|source| source != "api")
}
