//! Whether a pod's toleration matches a taint of the node. Pure.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether `toleration` matches `taint` (Kubernetes docs, "Taints and Tolerations").
pub(super) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (key, effect) = (given(&toleration.key), given(&toleration.effect));
    let value = |text: &Option<String>| text.clone().unwrap_or_default();
    effect.is_none_or(|effect| effect == taint.effect)
        && key.as_ref().is_none_or(|key| *key == taint.key)
        && match toleration.operator.as_deref() {
            Some("Exists") => true,
            None | Some("" | "Equal") => key.is_some() && value(&toleration.value) == value(&taint.value),
            // `Lt` and `Gt` are behind a feature gate that is off.
            Some(_) => false,
        }
}
