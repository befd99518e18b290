//! The condition `Ready`, and why the node is not ready.

use hostlet_base::node::NodeEvent;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeStatus};

use super::conditions::{ConditionContent, ConditionStatus, Previous, aggregate, put};
use super::events::status_event;
use crate::node::NodeSettings;

/// Its `type`.
pub(super) const READY: &str = "Ready";

/// Sets the condition; the capacity must be set before. Returns an event if readiness changed, or if the node is ready
/// from the beginning.
pub(super) fn set(
    status: &mut NodeStatus,
    settings: &NodeSettings,
    unready: &[String],
    now: Timestamp,
) -> Option<NodeEvent> {
    let mut errors = unready.to_vec();
    errors.extend(missing_capacity(status, settings));
    let problem = aggregate(&errors);
    let ready = problem.is_none();
    let content = match problem {
        None => ConditionContent {
            type_: READY,
            status: ConditionStatus::True,
            reason: "KubeletReady".into(),
            message: "kubelet is posting ready status".to_owned(),
        },
        Some(message) => {
            let (status, reason) = (ConditionStatus::False, "KubeletNotReady".into());
            ConditionContent { type_: READY, status, reason, message }
        }
    };
    match (put(status, content, now), ready) {
        (Previous::Same, _) | (Previous::Absent, false) => None,
        // A stock kubelet registers before its runtime is ready, so its nodes become ready; one that is ready at once has the same
        // event.
        (Previous::Absent | Previous::Other, true) => Some(status_event(&settings.name, "NodeReady")),
        (Previous::Other, false) => Some(status_event(&settings.name, "NodeNotReady")),
    }
}

/// Whether a Node is ready on the API server; `None` if it says nothing.
pub(in crate::node) fn is_ready(node: &Node) -> Option<bool> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == READY)?;
    Some(ready.status == ConditionStatus::True.as_str())
}

/// The scheduler cannot use a node without these capacities.
fn missing_capacity(status: &NodeStatus, settings: &NodeSettings) -> Option<String> {
    let storage = settings.node.local_storage_isolation.then_some("ephemeral-storage");
    let required = ["cpu", "memory", "pods"].into_iter().chain(storage);
    let is_missing = |name: &&str| !status.capacity.as_ref().is_some_and(|all| all.contains_key(*name));
    let missing: Vec<&str> = required.filter(is_missing).collect();
    (!missing.is_empty()).then(|| format!("missing node capacity for resources: {}", missing.join(", ")))
}
