//! The dependencies of workers: one value that all of them share. Has no behavior.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::metrics::WorkerMetrics;
use super::report_sinks::ReportSinks;
use super::restarts::RestartRequests;
use crate::cri_config::{HostSettings, UserNamespaces};
use crate::gate::{StartGate, StopGate};
use crate::grants::Grants;
use crate::ownership::OwnPods;
use hostlet_base::QuietPeriod;
use hostlet_dra::Claims;
use hostlet_host::Mounts;
use hostlet_host::cgroup::Cgroups;
use hostlet_image::Images;
use hostlet_net::http::HttpClient;
use hostlet_observe::log::LogLayout;
use hostlet_observe::pleg::PlegHandle;
use hostlet_pod::ProbeResults;
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{ObjectSource, RuntimeClasses};
use hostlet_runtime::cri::{RuntimeService, RuntimeStatus};
use hostlet_store::Store;
use hostlet_volume::Volumes;

/// The container runtime, and what bounds the load on it.
pub(crate) struct RuntimeAccess {
    pub service: Arc<dyn RuntimeService>,
    /// Its last status; none before its first answer.
    pub status: watch::Receiver<Option<RuntimeStatus>>,
    /// The handlers of the cluster's runtime classes.
    pub classes: RuntimeClasses,
    /// Pulls images.
    pub images: Images,
    /// Observes what it runs.
    pub pleg: PlegHandle,
    /// Bounds concurrent starts.
    pub starts: StartGate,
    /// Bounds concurrent stops.
    pub stops: StopGate,
    /// Signals when no pod starts or stops.
    pub quiet_period: QuietPeriod,
}

/// What pods use on this host outside the runtime.
pub(crate) struct HostAccess {
    /// The ID of its boot.
    pub boot_id: Arc<str>,
    /// Facts of the host that configurations need.
    pub settings: Arc<HostSettings>,
    /// Pod cgroups; none with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// The ID ranges of pods with user namespaces.
    pub user_namespaces: Arc<UserNamespaces>,
    /// Where container logs are.
    pub logs: LogLayout,
    /// Sets up the pods' volumes and tears them down.
    pub volumes: Volumes,
    /// Has the pods' claimed devices prepared and unprepared.
    pub claims: Claims,
    /// The host's mounts: no removal crosses one.
    pub mounts: Arc<dyn Mounts>,
}

/// Sources of containers' environments.
pub(crate) struct EnvAccess {
    /// ConfigMaps and Secrets.
    pub objects: Arc<dyn ObjectSource>,
    /// Variables of the cluster's services.
    pub services: ServiceEnv,
}

/// The dependencies of workers.
pub(crate) struct WorkerContext {
    /// The container runtime.
    pub runtime: RuntimeAccess,
    pub host: HostAccess,
    /// What pods have for themselves.
    pub grants: Grants,
    /// Sources of environments.
    pub env: EnvAccess,
    /// Destinations of reports.
    pub reports: ReportSinks,
    /// Persists what the next daemon has to know.
    pub store: Store,
    /// The record of hostlet's own pods.
    pub own: OwnPods,
    /// Restarts that users requested.
    pub restarts: RestartRequests,
    /// What the probes of containers have found.
    pub probes: ProbeResults,
    /// Sends the requests of lifecycle hooks.
    pub hook_client: HttpClient,
    pub metrics: WorkerMetrics,
    /// Longest pause of a crash loop.
    pub crash_loop_cap: Duration,
}
