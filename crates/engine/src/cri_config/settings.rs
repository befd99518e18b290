//! The host's and node's settings for the builders. Built once at start-up; only the addresses change.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use hostlet_base::MemoryQos;
use hostlet_base::node::NodeAddresses;
use hostlet_volume::NodeAmounts;

use super::kernel::KernelFacts;

/// The host's settings.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// hostlet's root directory, `/var/lib/kubelet` by default.
    pub root_dir: PathBuf,
    /// Root of the pods' log directories, `/var/log/pods` by default.
    pub pod_logs_dir: PathBuf,
    /// The node's name, for the downward API.
    pub node_name: String,
    /// Addresses of the node, primary first; at most one per family.
    pub node_ips: NodeAddresses,
    /// DNS domain of the cluster; empty for none.
    pub cluster_domain: String,
    /// Addresses of the cluster's DNS service; empty for none.
    pub cluster_dns: Vec<IpAddr>,
    /// The resolv.conf of DNS policy `Default`; `None` disables DNS in such pods.
    pub resolv_conf: Option<PathBuf>,
    /// Whether CPU limits become CFS quotas.
    pub cpu_cfs_quota: bool,
    /// Period of the CFS quotas (`cpuCFSQuotaPeriod`), 100 ms by default.
    pub cpu_cfs_quota_period: Duration,
    /// Whether an unset seccomp profile means the runtime's default rather than unconfined.
    pub seccomp_default: bool,
    /// The node's allocatable resources.
    pub allocatable: NodeAmounts,
    /// Memory of the machine in bytes.
    pub memory_capacity: u64,
    /// Whether the host uses cgroup v2.
    pub cgroup_v2: bool,
    /// Protection and throttling of memory on cgroup v2; `None` without the feature gate `MemoryQoS`.
    pub memory_qos: Option<MemoryQos>,
    /// Whether burstable containers may swap (cgroup v2 only).
    pub limited_swap: bool,
    /// Swap of the machine in bytes.
    pub swap_capacity: u64,
    /// Whether an OOM kill terminates a single process rather than the whole container (cgroup v2 only).
    pub single_process_oom_kill: bool,
    /// Whether containers are stopped with the signals of their specs (feature gate `ContainerStopSignals`).
    pub stop_signals: bool,
    /// Name of the runtime, e.g. `containerd`: the scheme of container IDs.
    pub runtime_name: String,
    /// The kernel's features.
    pub kernel: KernelFacts,
}
