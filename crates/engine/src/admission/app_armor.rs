//! Whether a pod requires AppArmor (Kubernetes docs, "Restrict a Container's Access to Resources with AppArmor"). Pure.

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod};

/// Prefix of the annotations from before the field `appArmorProfile`.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Why the pod cannot run without AppArmor, in upstream's words; `None` if it can.
pub(super) fn required(pod: &Pod, is_enabled: bool) -> Option<String> {
    let is_required = || {
        let mut annotations = pod.metadata.annotations.iter().flatten();
        annotations.any(|(key, value)| key.starts_with(ANNOTATION) && value != "unconfined")
            || has_profile(pod)
    };
    (!is_enabled && is_required())
        .then(|| "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned())
}

fn has_profile(pod: &Pod) -> bool {
    let confines = |profile: &AppArmorProfile| profile.type_ != "Unconfined";
    let Some(spec) = &pod.spec else { return false };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let contexts = containers.filter_map(|container| container.security_context.as_ref());
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .filter_map(|container| container.security_context.as_ref());
    let own = contexts.chain(ephemeral).filter_map(|context| context.app_armor_profile.as_ref());
    let shared = spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    own.chain(shared).any(confines)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rejected(metadata: Value, spec: Value) -> bool {
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        assert_eq!(required(&pod, true), None);
        required(&pod, false).is_some()
    }

    #[test]
    fn every_profile_but_unconfined_requires_app_armor() {
        let profile = |kind: &str| json!({"appArmorProfile": {"type": kind}});
        let container = |kind: &str| json!({"containers": [{"name": "c", "securityContext": profile(kind)}]});
        for (kind, is_rejected) in [("Unconfined", false), ("RuntimeDefault", true), ("Localhost", true)] {
            assert_eq!(rejected(json!({}), container(kind)), is_rejected, "{kind}");
            let pod = json!({"containers": [], "securityContext": profile(kind)});
            assert_eq!(rejected(json!({}), pod), is_rejected, "{kind}");
        }
        for (value, is_rejected) in
            [("unconfined", false), ("runtime/default", true), ("localhost/web", true)]
        {
            let annotation = json!({"annotations": {(format!("{ANNOTATION}c")): value}});
            assert_eq!(rejected(annotation, json!({"containers": []})), is_rejected, "{value}");
        }
        assert!(!rejected(json!({}), json!({"containers": [{"name": "c"}]})));
    }
}
