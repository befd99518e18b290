//! The events about the node that its start reports, with upstream's reasons and messages.

use hostlet_base::node::NodeEvent;

/// The daemon starts.
pub(super) fn starting_event() -> NodeEvent {
    NodeEvent::normal("Starting", "Starting kubelet.")
}

/// The host has cgroup v1 (<https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1>).
pub(super) fn cgroup_v1_event() -> NodeEvent {
    let message = "cgroup v1 support is deprecated and will be removed in a future release, please migrate to cgroup v2";
    NodeEvent::warning("CgroupV1", message)
}

/// The host has swap, and the kernel cannot keep volumes in memory out of it.
pub(super) fn swap_event() -> NodeEvent {
    let message = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) \
        might be swapped to disk and should no longer be considered secure.";
    NodeEvent::warning("PossibleMemoryBackedVolumesOnDisk", message)
}

/// The host's resolv.conf cannot be the base of those of pods as it is.
pub(super) fn resolv_conf_event(problem: String) -> NodeEvent {
    NodeEvent::warning("CheckLimitsForResolvConf", problem)
}
