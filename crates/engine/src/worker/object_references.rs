//! The objects and tokens that a worker needs to start its pod, from the same functions by which it follows them. Pure.

use hostlet_pod::AdmittedPod;
use hostlet_pod::objects::ObjectReferences;
use hostlet_volume::volume_references;

use super::pull_secrets::pull_secret_references;
use crate::cri_config::env_references;

/// The objects and tokens that `pod` needs.
pub fn object_references(pod: &AdmittedPod) -> ObjectReferences {
    let mut all = volume_references(pod);
    let namespace = &pod.reference.namespace;
    let containers = pod.all_containers().map(|container| container.spec);
    all.objects.extend(containers.flat_map(|container| env_references(container, namespace)));
    all.objects.extend(pull_secret_references(pod));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_environments_and_pulls_need_objects_and_volumes_need_tokens() {
        let from = |secret: &str| json!({"secretRef": {"name": secret}});
        let key =
            |map: &str| json!({"name": "V", "valueFrom": {"configMapKeyRef": {"name": map, "key": "k"}}});
        let pod = json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
            "spec": {
                "serviceAccountName": "sa",
                "imagePullSecrets": [{"name": "pull"}, {"name": ""}],
                "initContainers": [{"name": "i", "envFrom": [from("of-init")]}],
                "containers": [{"name": "c", "env": [key("of-env")]}],
                "ephemeralContainers": [{"name": "e", "envFrom": [from("of-ephemeral")]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "in-volume"}},
                    {"name": "b", "configMap": {"name": "in-volume"}},
                    {"name": "c", "projected": {"sources": [
                        {"configMap": {"name": "projected"}}, {"secret": {"name": "projected"}},
                        {"serviceAccountToken": {"path": "token", "audience": "vault"}}]}}]}});
        let pod = AdmittedPod::new(serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(pod).unwrap());
        let found = object_references(&pod);
        let names: Vec<String> =
            found.objects.iter().map(|object| format!("{} {}", object.kind, object.name)).collect();
        let expected = [
            "configmap in-volume",
            "configmap of-env",
            "configmap projected",
            "secret in-volume",
            "secret of-ephemeral",
            "secret of-init",
            "secret projected",
            "secret pull",
        ];
        assert_eq!(names, expected);
        assert!(found.objects.iter().all(|object| object.namespace == "ns"));
        let tokens: Vec<_> = found.tokens.iter().collect();
        assert_eq!(tokens.len(), 1);
        assert_eq!((tokens[0].pod_uid.as_str(), &*tokens[0].audiences), ("u1", &["vault".to_owned()][..]));
    }
}
