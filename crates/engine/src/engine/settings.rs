//! What the engine is configured with. Reads no configuration: that is `config`'s.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use hostlet_base::settings::{EvictionSettings, ImageGcPolicy, LogLimits};
use hostlet_observe::log::LogLayout;
use hostlet_observe::status::StatusGates;
use hostlet_volume::NodeAmounts;

use crate::admission::NodeView;
use crate::cri_config::SubordinateIds;
use crate::shutdown::ShutdownSettings;

/// What the configuration and the host decide for the lifetime of the engine.
pub struct EngineSettings {
    /// The daemon's directory (`--root-dir`).
    pub root_dir: PathBuf,
    /// Where container logs are.
    pub logs: LogLayout,
    /// When the logs of containers are rotated; `None` if the runtime does that.
    pub log_limits: Option<LogLimits>,
    /// When unused images are removed.
    pub image_gc: ImageGcPolicy,
    /// The properties of this node that do not change at run time.
    pub node: NodeView,
    /// The node's allocatable resources as pods see them.
    pub amounts: NodeAmounts,
    /// Permitted unsafe sysctls: names, or prefixes followed by `*` (`allowedUnsafeSysctls`).
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Whether containers may swap.
    pub has_swap: bool,
    /// Pause between two syncs of a pod that nothing else causes (`syncFrequency`).
    pub sync_frequency: Duration,
    /// How many starts may be under way at once.
    pub max_concurrent_starts: NonZeroUsize,
    /// Longest pause of a crash loop.
    pub crash_loop_cap: Duration,
    /// What statuses show only with a feature gate.
    pub status_gates: StatusGates,
    /// Whether pods that exceed the limits of their local storage are evicted (`localStorageCapacityIsolation`).
    pub isolates_storage: bool,
    /// When pods are evicted because the node runs out of a resource.
    pub eviction: EvictionSettings,
    /// Pause between two measurements of volumes that outlive their pods; `None` if they are not measured.
    pub volume_stats_period: Option<Duration>,
    /// The IDs of pods with user namespaces.
    pub user_ids: UserIds,
    /// Shutdowns of the host.
    pub shutdown: ShutdownSettings,
}

/// The IDs that pods with user namespaces get.
pub struct UserIds {
    /// How many each of them gets.
    pub per_pod: u32,
    /// How many pods the node may have.
    pub max_pods: usize,
    /// The host's ranges.
    pub subordinate: SubordinateIds,
}
