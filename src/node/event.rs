//! Events about the node, and where they go.

use std::borrow::Cow;
use std::sync::Arc;

use crate::types::EventKind;

/// An event about the node. Reasons and messages are upstream's: people and programs match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Trouble or not.
    pub kind: EventKind,
    /// Machine-readable cause, e.g. `NodeNotReady`.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
}

/// Takes events about the node. Must not block.
pub type NodeEvents = Arc<dyn Fn(NodeEvent) + Send + Sync>;

impl NodeEvent {
    /// The daemon starts.
    pub fn starting() -> Self {
        Self::normal("Starting", "Starting kubelet.".to_owned())
    }

    /// The host has cgroup v1 (<https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1>).
    pub fn cgroup_v1() -> Self {
        let message = "cgroup v1 support is deprecated and will be removed in a future release, please migrate to cgroup v2";
        Self::warning("CgroupV1", message.to_owned())
    }

    /// All pods together are limited to what is not reserved.
    pub fn allocatable_enforced() -> Self {
        Self::normal("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods".to_owned())
    }

    /// They are not, yet.
    pub fn allocatable_not_enforced(error: &str) -> Self {
        let message = format!("Failed to update Node Allocatable Limits: {error}");
        Self::warning("FailedNodeAllocatableEnforcement", message)
    }

    /// Another kubelet works on the runtime of this node.
    pub fn other_kubelet(message: String) -> Self {
        Self::warning("OtherKubeletOnRuntime", message)
    }

    /// A condition of the node changed.
    pub(super) fn status(node: &str, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        let message = format!("Node {node} status is now: {reason}");
        Self::normal(reason, message)
    }

    /// The machine was booted since the node was last told of.
    pub(super) fn rebooted(node: &str, boot_id: &str) -> Self {
        let message = format!("Node {node} has been rebooted, boot id: {boot_id}");
        Self::warning("Rebooted", message)
    }

    fn normal(reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { kind: EventKind::Normal, reason: reason.into(), message }
    }

    fn warning(reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { kind: EventKind::Warning, reason: reason.into(), message }
    }
}
