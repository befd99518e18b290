//! The configuration the daemon runs with.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::cri::CgroupDriver;

/// Validated configuration.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Config {
    pub node_name: String,
    pub node_ips: Vec<IpAddr>,
    pub root_dir: PathBuf,
    pub lock_file: Option<PathBuf>,
    pub static_pod_path: Option<PathBuf>,
    pub pod_logs_dir: PathBuf,
    pub sync_frequency: Duration,
    pub file_check_frequency: Duration,
    pub container_runtime_endpoint: String,
    pub image_service_endpoint: Option<String>,
    pub runtime_request_timeout: Duration,
    pub registry_pull_qps: u32,
    pub registry_burst: u32,
    pub serialize_image_pulls: bool,
    pub max_parallel_image_pulls: Option<std::num::NonZeroUsize>,
    pub cgroup_driver: CgroupDriver,
    pub cgroup_root: String,
    pub cgroups_per_qos: bool,
    pub cpu_cfs_quota: bool,
    pub cpu_cfs_quota_period: Duration,
    pub pod_pids_limit: Option<i64>,
    pub single_process_oom_kill: Option<bool>,
    pub seccomp_default: bool,
    pub crash_loop_max: Duration,
    pub resolv_conf: Option<PathBuf>,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    pub oom_score_adj: i32,
    pub max_open_files: u64,
    pub fail_swap_on: bool,
    pub fail_cgroup_v1: bool,
    pub socket: PathBuf,
    pub max_concurrent_starts: usize,
}
