//! Settings of the cgroup tree and of pods. Plain data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::{CgroupDriver, MemoryProtection};

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
    /// The sizes of the machine's huge pages, in bytes.
    pub huge_page_sizes: Vec<u64>,
    /// Maximum number of processes and threads per pod; no limit if `None` or not above zero (`podPidsLimit`).
    pub pids_limit: Option<i64>,
    /// Whether CPU limits become quotas (`cpuCFSQuota`).
    pub cfs_quota: bool,
    /// The period of quotas (`cpuCFSQuotaPeriod`).
    pub cfs_period: Duration,
}

impl CgroupSettings {
    /// Settings for looking at the cgroups of pods, and removing them: none is created or limited with these.
    pub fn of_existing(driver: CgroupDriver, root: &str, host: &Path) -> Self {
        Self {
            driver,
            root: root.to_owned(),
            mount: host.join("sys/fs/cgroup"),
            proc: host.join("proc"),
            per_qos: true,
            huge_page_sizes: Vec::new(),
            pids_limit: None,
            cfs_quota: false,
            cfs_period: Duration::ZERO,
        }
    }
}

/// Settings of the cgroup of all pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllPods {
    /// CPU in thousandths of a core, which sets the weight relative to other processes of the host.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Processes and threads.
    pub pids: i64,
    /// Bytes in huge pages by page size; 0 for a size that is missing.
    pub huge_pages: BTreeMap<u64, i64>,
    /// The online CPUs as a list, e.g. `0-3`; nothing is written if it is empty. v2 only.
    pub cpus: String,
}

/// Settings of a cgroup of the host's daemons. What is `None` or `false` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonResources {
    /// CPU in thousandths of a core, which sets the weight.
    pub milli_cpu: Option<i64>,
    /// Bytes.
    pub memory: Option<i64>,
    /// Whether this memory is also never reclaimed; v2 only.
    pub is_memory_protected: bool,
    /// Processes and threads.
    pub pids: Option<i64>,
    /// Whether huge pages are forbidden.
    pub has_no_huge_pages: bool,
}

/// What the cgroups of QoS classes get because of their pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassResources {
    /// The total request of burstable pods in thousandths of a core.
    pub burstable_milli_cpu: i64,
    /// Protected memory of all pods together.
    pub all_memory: MemoryProtection,
    /// Protected memory of burstable pods together.
    pub burstable_memory: MemoryProtection,
    /// Bytes for burstable and best-effort pods together; the limit stays as it is if `None`.
    pub burstable_memory_limit: Option<i64>,
    /// Bytes for best-effort pods; the limit stays as it is if `None`.
    pub best_effort_memory_limit: Option<i64>,
}

/// Settings of a pod's cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResources {
    /// CPU weight, in v1 `cpu.shares`: 1024 per core.
    pub cpu_shares: u64,
    /// CPU quota in microseconds per period; `None` is unlimited.
    pub cpu_quota: Option<i64>,
    /// Bytes; `None` is unlimited.
    pub memory_limit: Option<i64>,
    /// Protected memory; only on v2.
    pub memory_protection: MemoryProtection,
    /// Bytes above which the pod is throttled; only on v2.
    pub memory_high: Option<i64>,
    /// Bytes in huge pages by page size; 0 for a size that is missing.
    pub huge_pages: BTreeMap<u64, i64>,
}
