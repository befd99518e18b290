//! Who makes cgroups.

/// Who makes the cgroups of pods and containers. Kubelet and runtime must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Each for itself, as directories of the cgroup filesystem.
    Cgroupfs,
    /// systemd, which is asked for slices and scopes.
    Systemd,
}
