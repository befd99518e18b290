//! What the cgroup room is told: how the tree is laid out and what a pod may use. Plain data, no logic.

use std::path::PathBuf;
use std::time::Duration;

use crate::types::CgroupDriver;

/// How this host's pod cgroups are made. Names in brackets are fields of KubeletConfiguration.
#[derive(Clone, Debug)]
pub struct CgroupSettings {
    /// Who makes the cgroups; must be the runtime's driver too. (`cgroupDriver`)
    pub driver: CgroupDriver,
    /// The cgroup above `kubepods`, as a path like `/a/b`; empty or `/` for the top. Made when absent. (`cgroupRoot`)
    pub root: String,
    /// Where cgroupfs is mounted, `/sys/fs/cgroup` on every host.
    pub mount: PathBuf,
    /// Where procfs is mounted, `/proc` on every host; its mount list says which hierarchies there are.
    pub proc: PathBuf,
    /// Whether pods get cgroups of ours at all; if not, every operation does nothing. (`cgroupsPerQOS`)
    pub per_qos: bool,
    /// What all pods may use together; none for no limit of ours. (`enforceNodeAllocatable: [pods]`)
    pub all_pods: Option<AllPods>,
    /// How many processes a pod may have; `None` or not above zero: no limit of ours. (`podPidsLimit`)
    pub pids_limit: Option<i64>,
    /// Whether CPU limits become quotas. (`cpuCFSQuota`)
    pub cfs_quota: bool,
    /// The period a quota counts over. (`cpuCFSQuotaPeriod`)
    pub cfs_period: Duration,
}

/// What the cgroup above all pods is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllPods {
    /// Thousandths of a core, for the weight beside what else runs on the host.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Processes and threads.
    pub pids: i64,
}

/// What a pod's cgroup is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodResources {
    /// Relative weight, in v1 `cpu.shares`: 1024 for one core.
    pub cpu_shares: u64,
    /// Microseconds of CPU time in each period; `None` is unlimited.
    pub cpu_quota: Option<i64>,
    /// Bytes; `None` is unlimited.
    pub memory_limit: Option<i64>,
}
