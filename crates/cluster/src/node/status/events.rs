//! The events of the Node's status, with upstream's reasons and messages.

use std::borrow::Cow;

use hostlet_base::node::NodeEvent;

/// A condition of the node changed.
pub(in crate::node) fn status_event(node: &str, reason: impl Into<Cow<'static, str>>) -> NodeEvent {
    let reason = reason.into();
    let message = format!("Node {node} status is now: {reason}");
    NodeEvent::normal(reason, message)
}

/// The machine was rebooted since the last reported status.
pub(super) fn rebooted_event(node: &str, boot_id: &str) -> NodeEvent {
    NodeEvent::warning("Rebooted", format!("Node {node} has been rebooted, boot id: {boot_id}"))
}
