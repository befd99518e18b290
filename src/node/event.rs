//! Events about the node, and where they go.

use std::sync::Arc;

use crate::types::EventKind;

/// An event about the node. Reasons and messages are upstream's: people and programs match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Trouble or not.
    pub kind: EventKind,
    /// Machine-readable cause, e.g. `NodeNotReady`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// Takes events about the node. Must not block.
pub type NodeEvents = Arc<dyn Fn(NodeEvent) + Send + Sync>;

impl NodeEvent {
    /// The daemon starts.
    pub fn starting() -> Self {
        Self { kind: EventKind::Normal, reason: "Starting", message: "Starting kubelet.".to_owned() }
    }

    /// The host has cgroup v1 (<https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1>).
    pub fn cgroup_v1() -> Self {
        let message = "cgroup v1 support is deprecated and will be removed in a future release, please migrate to cgroup v2";
        Self { kind: EventKind::Warning, reason: "CgroupV1", message: message.to_owned() }
    }

    /// All pods together are limited to what is not reserved.
    pub fn allocatable_enforced() -> Self {
        let message = "Updated Node Allocatable limit across pods".to_owned();
        Self { kind: EventKind::Normal, reason: "NodeAllocatableEnforced", message }
    }

    /// They are not, yet.
    pub fn allocatable_not_enforced(error: &str) -> Self {
        let message = format!("Failed to update Node Allocatable Limits: {error}");
        Self { kind: EventKind::Warning, reason: "FailedNodeAllocatableEnforcement", message }
    }

    /// Another kubelet works on the runtime of this node.
    pub fn other_kubelet(message: String) -> Self {
        Self { kind: EventKind::Warning, reason: "OtherKubeletOnRuntime", message }
    }

    /// A condition of the node changed.
    pub(super) fn status(node: &str, reason: &'static str) -> Self {
        let message = format!("Node {node} status is now: {reason}");
        Self { kind: EventKind::Normal, reason, message }
    }

    /// The machine was booted since the node was last told of.
    pub(super) fn rebooted(node: &str, boot_id: &str) -> Self {
        let message = format!("Node {node} has been rebooted, boot id: {boot_id}");
        Self { kind: EventKind::Warning, reason: "Rebooted", message }
    }
}
