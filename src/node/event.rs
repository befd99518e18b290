//! Events about the node.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use crate::types::EventKind;

/// An event about the node. Reasons and messages are upstream's: people and tools match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Normal or warning.
    pub kind: EventKind,
    /// Machine-readable cause, e.g. `NodeNotReady`.
    pub reason: Cow<'static, str>,
    /// Human-readable description.
    pub message: String,
}

/// Receives events about the node. Must not block.
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

    /// The host has swap, and the kernel cannot keep volumes in memory out of it.
    pub fn memory_may_be_swapped() -> Self {
        let message = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) \
            might be swapped to disk and should no longer be considered secure.";
        Self::warning("PossibleMemoryBackedVolumesOnDisk", message.to_owned())
    }

    /// The host's resolv.conf cannot be the base of those of pods as it is.
    pub fn resolv_conf(problem: String) -> Self {
        Self::warning("CheckLimitsForResolvConf", problem)
    }

    /// The limit of all pods together was set.
    pub fn allocatable_enforced() -> Self {
        Self::normal("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods".to_owned())
    }

    /// The limit of all pods together could not be set.
    pub fn allocatable_not_enforced(error: &str) -> Self {
        let message = format!("Failed to update Node Allocatable Limits: {error}");
        Self::warning("FailedNodeAllocatableEnforcement", message)
    }

    /// The host begins to shut down.
    pub fn shutdown() -> Self {
        Self::normal("Shutdown", "Shutdown manager detected shutdown event".to_owned())
    }

    /// The shutdown was cancelled.
    pub fn shutdown_cancelled() -> Self {
        Self::normal("Shutdown", "Shutdown manager detected shutdown cancellation".to_owned())
    }

    /// The kernel killed a process because the host has no memory left.
    pub(super) fn system_oom(process: &str, pid: u32) -> Self {
        let message = format!("System OOM encountered, victim process: {process}, pid: {pid}");
        Self::warning("SystemOOM", message)
    }

    /// Another kubelet uses the same runtime.
    pub fn other_kubelet(message: String) -> Self {
        Self::warning("OtherKubeletOnRuntime", message)
    }

    /// A plugin was registered.
    pub fn plugin_registered(plugin_type: &str, name: &str, socket: &Path) -> Self {
        let message = format!("Registered {plugin_type} {name} at {}", socket.display());
        Self::normal("PluginRegistered", message)
    }

    /// A registered plugin is gone.
    pub fn plugin_deregistered(plugin_type: &str, name: &str, socket: &Path) -> Self {
        let message = format!("{plugin_type} {name} is no longer registered: {} is gone", socket.display());
        Self::normal("PluginDeregistered", message)
    }

    /// A plugin cannot be registered.
    pub fn plugin_not_registered(name: Option<&str>, socket: &Path, error: &str) -> Self {
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        let message = format!("Cannot register plugin{name} at {}: {error}", socket.display());
        Self::warning("FailedPluginRegistration", message)
    }

    /// Parts of what a DRA driver reported cannot be published.
    pub fn driver_devices_rejected(message: String) -> Self {
        Self::warning("DriverDevicesRejected", message)
    }

    /// The devices of a DRA driver could not be published.
    pub fn slices_not_published(message: String) -> Self {
        Self::warning("ResourceSlicesNotPublished", message)
    }

    /// A condition of the node changed.
    pub(super) fn status(node: &str, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        let message = format!("Node {node} status is now: {reason}");
        Self::normal(reason, message)
    }

    /// The machine was rebooted since the last reported status.
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
