//! Patches of a claim's status for what a node does with its volume (upstream `resize_util.go`): strategic merge patches of the fields that
//! a node may change. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::rules::{IN_PROGRESS, STORAGE};

/// The conditions of a claim that say how its volume grows. They end with it; other conditions are somebody else's.
const CONDITIONS: [&str; 4] =
    ["FileSystemResizePending", "Resizing", "ControllerResizeError", "NodeResizeError"];

/// The condition of a claim whose volume the node could not grow.
const ERROR: &str = "NodeResizeError";

/// The status of a claim whose volume the node cannot grow.
const INFEASIBLE: &str = "NodeResizeInfeasible";

/// The node grows the volume. Fails if the claim has changed.
pub(super) fn in_progress(claim: &PersistentVolumeClaim) -> Value {
    let status = json!({"allocatedResourceStatuses": {STORAGE: IN_PROGRESS}});
    json!({"metadata": version(claim), "status": status})
}

/// The volume has this size. Fails if the claim has changed.
pub(super) fn finished(claim: &PersistentVolumeClaim, size: &Quantity) -> Value {
    let present = conditions(claim).filter(|present| CONDITIONS.contains(present));
    let removed: Vec<Value> = present.map(|present| json!({"$patch": "delete", "type": present})).collect();
    let mut status = json!({"capacity": {STORAGE: size}, "allocatedResourceStatuses": {STORAGE: null}});
    if !removed.is_empty() {
        status["conditions"] = Value::Array(removed);
    }
    json!({"metadata": version(claim), "status": status})
}

/// The node could not grow the volume, and does not try again if it is infeasible. Whatever else the claim says by now. `None` if the claim
/// says so.
pub(super) fn failed(
    claim: &PersistentVolumeClaim,
    is_infeasible: bool,
    cause: &str,
    now: Timestamp,
) -> Option<Value> {
    let mut status = json!({});
    if is_infeasible {
        status["allocatedResourceStatuses"] = json!({STORAGE: INFEASIBLE});
    }
    // As upstream, the first failure is shown.
    if !has_error(claim) {
        let message = format!("failed to expand pvc with {cause}");
        let since = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition =
            json!({"type": ERROR, "status": "True", "lastTransitionTime": since, "message": message});
        status["conditions"] = json!([condition]);
    }
    let is_empty = status.as_object().is_none_or(serde_json::Map::is_empty);
    (!is_empty).then(|| json!({"status": status}))
}

fn version(claim: &PersistentVolumeClaim) -> Value {
    json!({"resourceVersion": claim.metadata.resource_version})
}

fn conditions(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let all = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
    all.into_iter().flatten().map(|condition| condition.type_.as_str())
}

fn has_error(claim: &PersistentVolumeClaim) -> bool {
    let all = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
    all.into_iter().flatten().any(|condition| condition.type_ == ERROR && condition.status == "True")
}
