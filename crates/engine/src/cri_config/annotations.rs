//! Labels and annotations of sandboxes and containers, from which hostlet or a stock kubelet recovers a pod. Pure.

use std::collections::{BTreeMap, HashMap};

use hostlet_base::{
    CONTAINER_HASH_ANNOTATION, CONTAINER_NAME_LABEL, CONTAINER_PORTS_ANNOTATION,
    CONTAINER_PRE_STOP_ANNOTATION, CONTAINER_RESTART_COUNT_ANNOTATION, CONTAINER_TERMINATION_PATH_ANNOTATION,
    CONTAINER_TERMINATION_POLICY_ANNOTATION, POD_DELETION_GRACE_ANNOTATION, POD_NAME_LABEL,
    POD_NAMESPACE_LABEL, POD_TERMINATION_GRACE_ANNOTATION, POD_UID_LABEL, go_json,
};
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::Container;

use super::{container_hash, gojson};

/// Labels of a sandbox: the pod's own, overridden by the kubelet's.
pub(super) fn sandbox_labels(pod: PodView<'_>) -> HashMap<String, String> {
    let mut labels: HashMap<_, _> =
        pod.meta.labels.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    labels.extend(identity(pod));
    labels
}

/// Annotations of a sandbox: the pod's, unchanged.
pub(super) fn sandbox_annotations(pod: PodView<'_>) -> HashMap<String, String> {
    pod.meta.annotations.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Labels of a container: only the kubelet's.
pub(super) fn container_labels(pod: PodView<'_>, container: &Container) -> HashMap<String, String> {
    let name = (CONTAINER_NAME_LABEL.to_owned(), container.name.clone());
    identity(pod).into_iter().chain([name]).collect()
}

/// Annotations of a container: those it was granted, overridden by the kubelet's.
pub(super) fn container_annotations(
    pod: PodView<'_>,
    container: &Container,
    attempt: u32,
    granted: BTreeMap<String, String>,
) -> HashMap<String, String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let always = [
        (CONTAINER_HASH_ANNOTATION, format!("{:x}", container_hash(container))),
        (CONTAINER_RESTART_COUNT_ANNOTATION, attempt.to_string()),
        (CONTAINER_TERMINATION_PATH_ANNOTATION, text(&container.termination_message_path)),
        (CONTAINER_TERMINATION_POLICY_ANNOTATION, text(&container.termination_message_policy)),
    ];
    let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let ports: Vec<_> = container.ports.iter().flatten().map(gojson::Port::from).collect();
    let ports = (!ports.is_empty()).then_some(ports);
    let sometimes = [
        (
            POD_DELETION_GRACE_ANNOTATION,
            pod.meta.deletion_grace_period_seconds.map(|grace| grace.to_string()),
        ),
        (
            POD_TERMINATION_GRACE_ANNOTATION,
            pod.spec.termination_grace_period_seconds.map(|grace| grace.to_string()),
        ),
        // Values read from JSON always serialize; upstream omits the annotation on failure too.
        (CONTAINER_PRE_STOP_ANNOTATION, pre_stop.and_then(|handler| go_json(handler).ok())),
        (CONTAINER_PORTS_ANNOTATION, ports.and_then(|ports| go_json(&ports).ok())),
    ];
    let sometimes = sometimes.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let own = always.into_iter().chain(sometimes).map(|(key, value)| (key.to_owned(), value));
    granted.into_iter().chain(own).collect()
}

fn identity(pod: PodView<'_>) -> [(String, String); 3] {
    [(POD_NAME_LABEL, pod.name), (POD_NAMESPACE_LABEL, pod.namespace), (POD_UID_LABEL, pod.uid)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cri_config::testing::pod;

    #[test]
    fn the_kubelets_labels_win_over_the_pods() {
        let mut pod = pod(json!({"containers": [{"name": "c"}]}));
        pod.metadata.labels.as_mut().unwrap().insert(POD_UID_LABEL.into(), "forged".into());
        let labels = sandbox_labels((&pod).into());
        assert_eq!(labels[POD_UID_LABEL], "uid-1");
        assert_eq!(labels["app"], "web");
        assert_eq!(labels.len(), 4);
        let labels = container_labels((&pod).into(), &pod.spec.as_ref().unwrap().containers[0]);
        assert_eq!(labels.len(), 4);
        assert_eq!(labels[CONTAINER_NAME_LABEL], "c");
    }

    #[test]
    fn optional_annotations_appear_only_when_set() {
        let mut pod = pod(json!({"containers": [{"name": "c"}]}));
        let keys = |pod: &k8s_openapi::api::core::v1::Pod| {
            container_annotations(pod.into(), &pod.spec.as_ref().unwrap().containers[0], 3, BTreeMap::new())
        };
        assert_eq!(keys(&pod).len(), 4);
        assert_eq!(keys(&pod)[CONTAINER_RESTART_COUNT_ANNOTATION], "3");
        pod.metadata.deletion_grace_period_seconds = Some(7);
        assert_eq!(keys(&pod)[POD_DELETION_GRACE_ANNOTATION], "7");
    }
}
