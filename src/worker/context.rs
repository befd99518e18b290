//! What the work on pods is done with: one value, shared by all workers. Does nothing itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::reporter::ReportSinks;
use crate::cgroup::Cgroups;
use crate::cri::{RuntimeService, RuntimeStatus};
use crate::cri_config::HostSettings;
use crate::gate::{StartGate, StopGate};
use crate::image::Images;
use crate::log::LogLayout;
use crate::objects::ObjectSource;
use crate::objects::services::ServiceEnv;
use crate::pleg::PlegHandle;
use crate::store::Store;
use crate::sys::Mounts;
use crate::types::QuietPeriod;
use crate::volume::Volumes;

/// The container runtime, and what bounds the load on it.
pub struct RuntimeAccess {
    /// The runtime.
    pub service: Arc<dyn RuntimeService>,
    /// What it last said of itself; none before it first answered.
    pub status: watch::Receiver<Option<RuntimeStatus>>,
    /// Pulls images.
    pub images: Images,
    /// What it has.
    pub pleg: PlegHandle,
    /// Bounds concurrent starts.
    pub starts: StartGate,
    /// Bounds concurrent ends.
    pub stops: StopGate,
    /// When none starts or stops.
    pub quiet_period: QuietPeriod,
}

/// What pods have on this host beside the runtime.
pub struct HostAccess {
    /// What configurations need to know of the host.
    pub settings: Arc<HostSettings>,
    /// Pod cgroups; none with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Where container logs are.
    pub logs: LogLayout,
    /// Sets up the pods' volumes and takes them down.
    pub volumes: Volumes,
    /// The host's mounts: no directory is removed across one.
    pub mounts: Arc<dyn Mounts>,
}

/// What environments of containers are made from.
pub struct EnvAccess {
    /// ConfigMaps and Secrets.
    pub objects: Arc<dyn ObjectSource>,
    /// Variables of the cluster's services.
    pub services: ServiceEnv,
}

/// All of it.
pub struct WorkerContext {
    /// The container runtime.
    pub runtime: RuntimeAccess,
    /// The host.
    pub host: HostAccess,
    /// What environments are made from.
    pub env: EnvAccess,
    /// Where workers report to.
    pub reports: ReportSinks,
    /// Where what a new daemon must know is kept.
    pub store: Store,
    /// Longest pause of a crash loop.
    pub crash_loop_cap: Duration,
}
