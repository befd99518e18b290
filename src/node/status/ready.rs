//! The condition `Ready`: whether the node takes pods, and if not, everything that keeps it from it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeStatus;

use super::conditions::{Before, Said, aggregate, put};
use crate::node::{NodeEvent, Settings};

/// Its `type`.
pub(super) const READY: &str = "Ready";

/// Comes after the capacity is set. Gives an event if the node was ready and is not, or the other way round.
pub(super) fn set(
    status: &mut NodeStatus,
    settings: &Settings,
    unready: &[String],
    now: Timestamp,
) -> Option<NodeEvent> {
    let mut errors = unready.to_vec();
    errors.extend(missing_capacity(status, settings));
    let problem = aggregate(&errors);
    let ready = problem.is_none();
    let said = match problem {
        None => Said {
            type_: READY,
            holds: true,
            reason: "KubeletReady".into(),
            message: "kubelet is posting ready status".to_owned(),
        },
        Some(message) => Said { type_: READY, holds: false, reason: "KubeletNotReady".into(), message },
    };
    match put(status, said, now) {
        Before::Absent | Before::Same => None,
        Before::Other => {
            let reason = if ready { "NodeReady" } else { "NodeNotReady" };
            Some(NodeEvent::status(&settings.name, reason))
        }
    }
}

/// A node that does not know its own size cannot be filled.
fn missing_capacity(status: &NodeStatus, settings: &Settings) -> Option<String> {
    let storage = settings.node.local_storage_isolation.then_some("ephemeral-storage");
    let required = ["cpu", "memory", "pods"].into_iter().chain(storage);
    let is_missing = |name: &&str| !status.capacity.as_ref().is_some_and(|all| all.contains_key(*name));
    let missing: Vec<&str> = required.filter(is_missing).collect();
    (!missing.is_empty()).then(|| format!("missing node capacity for resources: {}", missing.join(", ")))
}
