//! Host paths fixed by the kernel or by upstream.

pub(super) const ROOT: &str = "/";
pub(super) const ETC: &str = "/etc";
pub(super) const PROC: &str = "/proc";
pub(super) const SYS: &str = "/sys";
pub(super) const CGROUP_MOUNT: &str = "/sys/fs/cgroup";
pub(super) const KERNEL_LOG: &str = "/dev/kmsg";
pub(super) const MOUNTINFO: &str = "/proc/self/mountinfo";
/// The directory for log collectors, which is not configurable upstream either.
pub(super) const CONTAINER_LOGS: &str = "/var/log/containers";
/// The directory, below the root directory, in which plugins create registration sockets.
pub(super) const PLUGIN_REGISTRY: &str = "plugins_registry";
/// The directory, below the root directory, of device plugins' sockets and of the checkpoint of devices.
pub(super) const DEVICE_PLUGINS: &str = "device-plugins";
/// hostlet's copy of that checkpoint, beside its store.
pub(super) const DEVICES_COPY: &str = "hostlet/devices";
/// The directory, below the root directory, of the socket of the pod resources API.
pub(super) const POD_RESOURCES: &str = "pod-resources";
/// The same of the Pods API.
pub(super) const PODS_API: &str = "pods-api";
/// The system's logs, fixed upstream as well.
pub(super) const SYSTEM_LOGS: &str = "/var/log";
