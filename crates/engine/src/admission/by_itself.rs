//! Why a pod may not run on this node regardless of other pods, and which running pods of another kubelet hostlet would therefore
//! terminate if it adopted them. Pure.

use std::collections::{BTreeSet, HashSet};

use hostlet_base::resources::is_extended;
use hostlet_base::{PodUid, reasons};
use hostlet_pod::validation::FieldError;
use hostlet_pod::view::PodView;
use hostlet_pod::{ApiState, Rejection, pod_ref, pod_uid};
use k8s_openapi::api::core::v1::Pod;

use super::node::NodeView;
use super::sysctls::forbidden_sysctl;
use super::{app_armor, pressure};
use crate::ownership::Unrunnable;
use crate::source::SourceState;

pub(super) const OS_LABEL: &str = "kubernetes.io/os";

/// Why the pod is rejected regardless of other pods; `None` if there is no such reason.
pub(super) fn rejection_by_itself(
    pod: &Pod,
    unsupported: &[FieldError],
    allowed_unsafe_sysctls: &[String],
    node: &NodeView,
) -> Option<Rejection> {
    let rejection = |reason: &'static str, message: String| Some(Rejection::new(reason, message));
    if !unsupported.is_empty() {
        // The reason of upstream's node-declared-features check.
        return rejection(reasons::POD_FEATURE_UNSUPPORTED, unsupported_message(unsupported));
    }
    if let Some(rejection) = pressure::rejection(pod, &node.pressures) {
        return Some(rejection);
    }
    if let Some(message) = forbidden_sysctl(pod, allowed_unsafe_sysctls) {
        return rejection(reasons::SYSCTL_FORBIDDEN, message);
    }
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if label.is_some_and(|os| os != "linux") {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return rejection(reasons::POD_OS_SELECTOR_NODE_LABEL_DOES_NOT_MATCH, message.to_owned());
    }
    let os = PodView::from(pod).spec.os.as_ref();
    if os.is_some_and(|os| os.name != "linux") {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return rejection(reasons::POD_OS_NOT_SUPPORTED, message.to_owned());
    }
    if needs_strict_groups(pod) && node.strict_groups == Some(false) {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        return rejection(reasons::SUPPLEMENTAL_GROUPS_POLICY_NOT_SUPPORTED, message.to_owned());
    }
    let class = PodView::from(pod).spec.runtime_class_name.as_deref();
    if node.is_standalone && class.is_some_and(|class| !class.is_empty()) {
        // Upstream ignores the field without an API server.
        let message = "spec.runtimeClassName: Forbidden: a runtime class is an object of an API server, \
            and this node has none";
        return rejection(reasons::POD_FEATURE_UNSUPPORTED, message.to_owned());
    }
    if let Some(message) = app_armor::required(pod, node.app_armor) {
        return rejection(reasons::APP_ARMOR, message);
    }
    None
}

/// Whether the pod's processes may only have the groups that it lists (KEP-3619).
pub(super) fn needs_strict_groups(pod: &Pod) -> bool {
    let context = PodView::from(pod).spec.security_context.as_ref();
    context.is_some_and(|context| context.supplemental_groups_policy.as_deref() == Some("Strict"))
}

/// The unsupported fields of a pod, as one message.
pub(super) fn unsupported_message(unsupported: &[FieldError]) -> String {
    unsupported.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The pods of the sources that run and that hostlet would reject, or that would lose their devices: registration sets the extended
/// resources that a former kubelet advertised to zero unless it `has_devices` recorded.
pub fn unrunnable(
    manifests: &SourceState,
    api: &ApiState,
    running: &HashSet<PodUid>,
    allowed_unsafe_sysctls: &[String],
    node: &NodeView,
    has_devices: bool,
) -> Vec<Unrunnable> {
    let manifests = manifests.pods.iter().map(|pod| (&pod.pod, &pod.unsupported));
    let all = manifests.chain(api.pods.values().map(|pod| (&pod.pod, &pod.unsupported)));
    let found = all.filter(|(pod, _)| running.contains(&pod_uid(pod))).filter_map(|(pod, unsupported)| {
        let rejection = rejection_by_itself(pod, unsupported, allowed_unsafe_sysctls, node);
        let why =
            rejection.map(|rejection| rejection.message).or_else(|| devices(pod).filter(|_| !has_devices))?;
        Some(Unrunnable { pod: pod_ref(pod), why })
    });
    found.collect()
}

/// The extended resources that a pod uses, as a reason.
fn devices(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = containers.filter_map(|container| container.resources.as_ref());
    let names = resources.flat_map(|of| of.limits.iter().chain(&of.requests).flat_map(|list| list.keys()));
    let names: BTreeSet<&str> = names.map(String::as_str).filter(|name| is_extended(name)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty())
        .then(|| format!("it uses {}, and there is no record of whose devices these are", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::source::StaticPod;
    use hostlet_pod::ManifestOrigin;
    use hostlet_pod::validation::unsupported;

    #[test]
    fn running_pods_that_hostlet_cannot_run_are_named() {
        let pod = |name: &str, spec: serde_json::Value| {
            let mut all = json!({
                "metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            for (key, value) in spec.as_object().unwrap() {
                all["spec"][key] = value.clone();
            }
            let pod: Arc<Pod> = Arc::new(serde_json::from_value(all).unwrap());
            Arc::new(StaticPod {
                unsupported: unsupported(&pod),
                origin: ManifestOrigin::File("a.yaml".into()),
                pod,
            })
        };
        let iscsi = json!({"volumes": [{"name": "v", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0}}]});
        let gpu = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]});
        let claims = json!({"resourceClaims": [{"name": "d", "resourceClaimName": "d"}]});
        let manifests = SourceState {
            pods: vec![
                pod("plain", json!({})),
                pod("iscsi", iscsi.clone()),
                pod("gpu", gpu),
                pod("claims", claims),
                pod("ended", iscsi),
            ],
            ..SourceState::default()
        };
        let running = ["plain", "iscsi", "gpu", "claims", "not-named"].map(PodUid::from).into();
        let node = NodeView::default();
        let found = unrunnable(&manifests, &ApiState::default(), &running, &[], &node, false);
        let named: Vec<String> = found.iter().map(|one| one.pod.to_string()).collect();
        assert_eq!(named, ["ns/iscsi", "ns/gpu"]);
        assert!(found[0].why.contains("iscsi"), "{found:?}");
        assert!(found[1].why.contains("nvidia.com/gpu"), "{found:?}");
        let found = unrunnable(&manifests, &ApiState::default(), &running, &[], &node, true);
        assert_eq!(found.len(), 1, "the record says which devices they have: {found:?}");
    }
}
