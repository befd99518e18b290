//! What a container is given of what its pod was granted. Does not know who grants it.

use std::collections::BTreeMap;

/// What a container is given beyond its own spec, of what its pod was granted: by device plugins (the response of `Allocate`,
/// [`deviceplugin/v1beta1`](https://pkg.go.dev/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1)), by DRA drivers (CDI devices only), and
/// by the policies for CPUs and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerGrant {
    /// Devices of the host, in the order in which they were granted.
    pub devices: Vec<GrantedDevice>,
    /// Directories and files of the host, in the order in which they were granted.
    pub mounts: Vec<GrantedMount>,
    /// Variables, of which the container's own override those of the same name.
    pub env: BTreeMap<String, String>,
    /// Annotations of the container in the runtime, of which the kubelet's own override those of the same name.
    pub annotations: BTreeMap<String, String>,
    /// Fully qualified names of CDI devices (`vendor.com/class=name`), in the order in which they were granted, each once.
    pub cdi_devices: Vec<String>,
    /// The CPUs on which it runs; `None` for all.
    pub cpus: Option<GrantedCpus>,
    /// The NUMA nodes of its memory, in the kernel's list format; `None` for all.
    pub memory_nodes: Option<String>,
}

/// The CPUs on which a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedCpus {
    /// Their numbers, in the kernel's list format (`cpuset(7)`).
    pub list: String,
    /// Whether no other container runs on them.
    pub are_exclusive: bool,
}

/// A device of the host that a container may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedDevice {
    /// Its path on the host.
    pub host_path: String,
    /// Its path in the container.
    pub container_path: String,
    /// Some of `r`, `w`, and `m` (`mknod`).
    pub permissions: String,
}

/// A path of the host that is mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedMount {
    /// The path on the host.
    pub host_path: String,
    /// Where it is mounted in the container.
    pub container_path: String,
    /// Whether the container can only read it.
    pub read_only: bool,
}

impl ContainerGrant {
    /// This grant and another one, whose variables and annotations override those of the same name.
    pub fn joined(mut self, other: Self) -> Self {
        self.devices.extend(other.devices);
        self.mounts.extend(other.mounts);
        self.env.extend(other.env);
        self.annotations.extend(other.annotations);
        let new = other.cdi_devices.into_iter().filter(|name| !self.cdi_devices.contains(name));
        let new: Vec<String> = new.collect();
        self.cdi_devices.extend(new);
        self.cpus = other.cpus.or(self.cpus);
        self.memory_nodes = other.memory_nodes.or(self.memory_nodes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_grants_name_a_cdi_device_once_and_the_later_value_of_a_variable() {
        let grant = |value: &str, devices: &[&str]| ContainerGrant {
            env: [("A".to_owned(), value.to_owned())].into(),
            cdi_devices: devices.iter().map(|&name| name.to_owned()).collect(),
            ..ContainerGrant::default()
        };
        let joined = grant("1", &["v/c=b", "v/c=a"]).joined(grant("2", &["v/c=a", "v/c=c"]));
        assert_eq!(joined, grant("2", &["v/c=b", "v/c=a", "v/c=c"]));
    }
}
