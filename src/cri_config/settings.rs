//! What of the host and of the node's configuration the builders need. Built once at start; nothing of it changes
//! but the addresses.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kernel::KernelFacts;
use crate::node::NodeAddresses;
use crate::volume::NodeAmounts;

/// The host as the configurations of sandboxes and containers see it.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Root of hostlet's own files, `/var/lib/kubelet` by default.
    pub root_dir: PathBuf,
    /// Root of the pods' log directories, `/var/log/pods` by default.
    pub pod_logs_dir: PathBuf,
    /// Name of the node.
    pub node_name: String,
    /// Addresses of the node, primary first; at most one per family.
    pub node_ips: NodeAddresses,
    /// DNS domain of the cluster; empty for none.
    pub cluster_domain: String,
    /// Addresses of the cluster's DNS service; empty for none.
    pub cluster_dns: Vec<IpAddr>,
    /// The resolver file that `Default` DNS copies; none disables DNS in such pods.
    pub resolv_conf: Option<PathBuf>,
    /// Whether CPU limits become CFS quotas.
    pub cpu_cfs_quota: bool,
    /// Period of the CFS quotas.
    pub cpu_cfs_quota_period: Duration,
    /// Whether an unset seccomp profile means the runtime's default rather than none.
    pub seccomp_default: bool,
    /// What pods can have of this node.
    pub allocatable: NodeAmounts,
    /// Memory of the machine, bytes.
    pub memory_capacity: u64,
    /// Whether cgroups are the unified hierarchy.
    pub cgroup_v2: bool,
    /// Whether out of memory kills one process rather than the whole container (cgroup v2 only).
    pub single_process_oom_kill: bool,
    /// Name of the runtime, e.g. `containerd`: the scheme of container IDs.
    pub runtime_name: String,
    /// What the kernel offers.
    pub kernel: KernelFacts,
}
