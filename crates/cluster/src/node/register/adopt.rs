//! Adoption of an existing Node. Its taints are not touched: `--register-with-taints` applies at creation only. Pure.

use std::collections::BTreeMap;

use hostlet_base::resources::is_extended;
use hostlet_base::{NODE_LABELS, Quantity};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource;
use serde_json::{Map, Value, json};

use super::initial::{ATTACH_DETACH, PROVIDED_IPS};
use crate::api::patch;

/// The patch that brings `existing` in line with the Node that would have been created; `None` if nothing differs.
pub(super) fn adopt(initial: &Node, existing: &Node) -> Option<Value> {
    let mut desired = existing.clone();
    let labels = desired.metadata.labels.get_or_insert_default();
    for (key, value) in initial.metadata.labels.iter().flatten() {
        // Other labels may have been changed by administrators since the Node was created.
        if NODE_LABELS.contains(&key.as_str()) {
            labels.insert(key.clone(), value.clone());
        }
    }
    let annotations = desired.metadata.annotations.get_or_insert_default();
    for key in [ATTACH_DETACH, PROVIDED_IPS] {
        match initial.metadata.annotations.as_ref().and_then(|all| all.get(key)) {
            Some(value) => annotations.insert(key.to_owned(), value.clone()),
            None => annotations.remove(key),
        };
    }
    let spec = desired.spec.get_or_insert_default();
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
    let mut change = patch::strategic(patch::Kind::Node, &part(existing), &part(&desired))?;
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

/// The status patch that sets the extended resources of `existing` to zero; `None` if there are none. A former kubelet
/// advertised them, and a pod scheduled for such a device would run without it. Upstream does the same while its device
/// manager has no checkpoint on this host.
pub(super) fn without_devices(existing: &Node) -> Option<Value> {
    let status = existing.status.as_ref()?;
    let zeroes = |resources: &Option<BTreeMap<String, resource::Quantity>>| -> Map<String, Value> {
        let resources = resources.iter().flatten();
        let left = resources.filter(|(name, amount)| is_extended(name) && !is_zero(amount));
        left.map(|(name, _)| (name.clone(), "0".into())).collect()
    };
    let (capacity, allocatable) = (zeroes(&status.capacity), zeroes(&status.allocatable));
    if capacity.is_empty() && allocatable.is_empty() {
        return None;
    }
    let status = json!({"capacity": capacity, "allocatable": allocatable});
    Some(json!({"metadata": {"uid": existing.metadata.uid}, "status": status}))
}

fn is_zero(amount: &resource::Quantity) -> bool {
    Quantity::parse(&amount.0).is_ok_and(|amount| amount == Quantity::bytes(0))
}
