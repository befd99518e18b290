//! The cgroup driver.

/// Who creates the cgroups of pods and containers. Kubelet and runtime must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Kubelet and runtime themselves, as directories in the cgroup filesystem.
    Cgroupfs,
    /// systemd, as slices and scopes.
    Systemd,
}
