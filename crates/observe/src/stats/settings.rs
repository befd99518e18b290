//! Dependencies and settings of the measurements.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::drivers::DriverStats;
use crate::log::LogLayout;
use crate::pleg::Cache;
use hostlet_base::WallClock;
use hostlet_host::cgroup::Cgroups;
use hostlet_pod::ExternalVolumes;
use hostlet_runtime::cri::RuntimeService;

/// Dependencies of the measurements of CPU, memory and processes.
#[derive(Clone)]
pub struct UsageSettings {
    /// The cgroups of pods.
    pub cgroups: Arc<Cgroups>,
    /// The observed pods.
    pub observed: Cache,
    /// Mount point of procfs, `/proc` outside tests.
    pub proc: PathBuf,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// Memory of the host, bytes.
    pub memory: u64,
    /// Swap of the host, bytes.
    pub swap: u64,
    /// When the host booted.
    pub booted_at: Timestamp,
    /// The cgroups of the host's own processes, as far as they are configured.
    pub system: SystemPaths,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// Paths of cgroups that are no pod's; `None` if they are not configured.
#[derive(Clone, Debug, Default)]
pub struct SystemPaths {
    /// The runtime's (`--runtime-cgroups`).
    pub runtime: Option<String>,
    /// The cgroup of other processes of the host (`systemCgroups`).
    pub misc: Option<String>,
}

/// Dependencies of the measurements of storage.
#[derive(Clone)]
pub struct StorageSettings {
    /// The runtime, which measures writable layers.
    pub runtime: Arc<dyn RuntimeService>,
    /// The observed pods.
    pub observed: Cache,
    /// The directories of logs.
    pub logs: LogLayout,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// The volumes that outlive their pods, which are measured at all times.
    pub external: watch::Receiver<ExternalVolumes>,
    /// How often (`volumeStatsAggPeriod`); `None` if never.
    pub external_pace: Option<Duration>,
    /// Asks drivers about theirs.
    pub drivers: DriverStats,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}
