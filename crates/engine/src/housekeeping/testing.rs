//! Pods of the tests of this room.

use std::sync::Arc;

use hostlet_pod::AdmittedPod;
use serde_json::json;

/// A pod whose only container has this request and limit of memory, and of 100 thousandths of a CPU.
pub(super) fn pod(name: &str, request: &str, limit: &str) -> Arc<AdmittedPod> {
    let amounts = |memory: &str| json!({"cpu": "100m", "memory": memory});
    let resources = json!({"requests": amounts(request), "limits": amounts(limit)});
    let pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    });
    AdmittedPod::new(Arc::new(serde_json::from_value(pod).unwrap()))
}
