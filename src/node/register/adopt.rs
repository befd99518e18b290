//! What an existing Node needs to be ours. Its taints are left alone: they are for the making of a node.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::initial::{ATTACH_DETACH, PROVIDED_IPS};
use crate::api::patch;
use crate::types::NODE_LABELS;

/// The patch that makes `existing` ours, given the Node we would have made; none if it is.
pub(super) fn adopt(initial: &Node, existing: &Node) -> Option<Value> {
    let mut ours = existing.clone();
    let labels = ours.metadata.labels.get_or_insert_default();
    for (key, value) in initial.metadata.labels.iter().flatten() {
        // What else it was to be labelled with at its making is for administrators to change since.
        if NODE_LABELS.contains(&key.as_str()) {
            labels.insert(key.clone(), value.clone());
        }
    }
    let annotations = ours.metadata.annotations.get_or_insert_default();
    for key in [ATTACH_DETACH, PROVIDED_IPS] {
        match initial.metadata.annotations.as_ref().and_then(|all| all.get(key)) {
            Some(value) => annotations.insert(key.to_owned(), value.clone()),
            None => annotations.remove(key),
        };
    }
    let spec = ours.spec.get_or_insert_default();
    if spec.provider_id.as_ref().is_none_or(String::is_empty) {
        spec.provider_id = initial.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    }
    let part = |node: &Node| {
        json!({
            "labels": node.metadata.labels.clone().unwrap_or_default(),
            "annotations": node.metadata.annotations.clone().unwrap_or_default(),
            "providerID": node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
        })
    };
    let mut change = patch::strategic(patch::Kind::Node, &part(existing), &part(&ours))?;
    let mut patch = json!({"metadata": {"uid": existing.metadata.uid}});
    for field in ["labels", "annotations"] {
        if change[field].is_object() {
            patch["metadata"][field] = change[field].take();
        }
    }
    if change["providerID"].is_string() {
        patch["spec"] = json!({"providerID": change["providerID"].take()});
    }
    Some(patch)
}
