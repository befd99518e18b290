//! Settings of the cgroup tree and of pods. Plain data.

use std::path::PathBuf;
use std::time::Duration;

use crate::types::CgroupDriver;

/// Settings of the cgroup tree. Names in parentheses are fields of KubeletConfiguration.
#[derive(Clone, Debug)]
pub struct CgroupSettings {
    /// The cgroup driver, which must also be the runtime's (`cgroupDriver`).
    pub driver: CgroupDriver,
    /// The parent of `kubepods`, a path like `/a/b`; empty or `/` for the root. Created if missing (`cgroupRoot`).
    pub root: String,
    /// Mount point of cgroupfs, `/sys/fs/cgroup` outside tests.
    pub mount: PathBuf,
    /// Mount point of procfs, `/proc` outside tests; its mount list shows the hierarchies.
    pub proc: PathBuf,
    /// Whether pods get cgroups at all; otherwise every operation does nothing (`cgroupsPerQOS`).
    pub per_qos: bool,
    /// The limit of all pods together; `None` for no limit (`enforceNodeAllocatable: [pods]`).
    pub all_pods: Option<AllPods>,
    /// Maximum number of processes and threads per pod; no limit if `None` or not above zero (`podPidsLimit`).
    pub pids_limit: Option<i64>,
    /// Whether CPU limits become quotas (`cpuCFSQuota`).
    pub cfs_quota: bool,
    /// The period of quotas (`cpuCFSQuotaPeriod`).
    pub cfs_period: Duration,
}

/// Settings of the cgroup of all pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllPods {
    /// CPU in thousandths of a core, which sets the weight relative to other processes of the host.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Processes and threads.
    pub pids: i64,
}

/// Settings of a pod's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodResources {
    /// CPU weight, in v1 `cpu.shares`: 1024 per core.
    pub cpu_shares: u64,
    /// CPU quota in microseconds per period; `None` is unlimited.
    pub cpu_quota: Option<i64>,
    /// Bytes; `None` is unlimited.
    pub memory_limit: Option<i64>,
}
