//! What the engine needs of its surroundings, which a test replaces by fakes.

use std::sync::Arc;

use hostlet_base::node::{CgroupLimits, NodeAddresses, NodeEvents, NodePressure, NodeReader, OwnNode};
use hostlet_base::{QuietPeriod, WallClock};
use hostlet_csi::{CsiVolumes, DriverObjects, Expansions};
use hostlet_devices::Devices;
use hostlet_dra::Claims;
use hostlet_host::Mounts;
use hostlet_image::Images;
use hostlet_image::gc::MeasureFilesystem;
use hostlet_image::preload::{ImageStore, PreloadConfig};
use hostlet_observe::pleg::PlegHandle;
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{ObjectSource, RuntimeClasses};
use hostlet_pod::{ApiState, PodEvents};
use hostlet_runtime::cri::{ImageService, RuntimeService, RuntimeStatus};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::Node;
use rand::rngs::StdRng;
use tokio::sync::watch;

use crate::grants::NumaSettings;
use crate::housekeeping::HostJanitor;
use crate::lifecycle::Janitor;
use crate::ownership::OwnPods;
use crate::shutdown::Logind;
use crate::source::SourceState;
use crate::worker::{PodSyncer, WorkerContext};

/// The dependencies of the engine.
pub struct EngineDeps {
    /// The container runtime.
    pub runtime: RuntimeDeps,
    /// Pulls images.
    pub images: Images,
    /// Imports images of archives; `None` if none are preloaded.
    pub preload: Option<ImagePreload>,
    /// What pods refer to.
    pub objects: ObjectInputs,
    /// The volumes of CSI drivers.
    pub csi: CsiDeps,
    /// The ResourceClaims of pods.
    pub claims: Claims,
    /// What pods can have for themselves.
    pub grants: GrantInputs,
    /// What should run.
    pub sources: PodSources,
    /// What is observed of this node, some of it by the API server's clients.
    pub node: NodeInputs,
    /// Persists what the next daemon has to know.
    pub store: Store,
    /// The record of hostlet's own pods.
    pub own: OwnPods,
    /// What the engine reaches of the host.
    pub host: HostDeps,
    /// Receives events.
    pub events: EventSinks,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
    /// The randomness of jitter.
    pub random: StdRng,
    /// Where metrics are registered.
    pub metrics: Metrics,
    /// Where those of probes are, which the kubelet serves apart.
    pub probe_metrics: Metrics,
    /// Stands between lifecycles and what they cause.
    pub interception: Interception,
}

/// The container runtime.
pub struct RuntimeDeps {
    /// Starts and stops sandboxes and containers.
    pub service: Arc<dyn RuntimeService>,
    /// Pulls, lists and removes images.
    pub images: Arc<dyn ImageService>,
    /// Its last status; `None` before its first answer.
    pub status: watch::Receiver<Option<RuntimeStatus>>,
    /// Observes what it runs.
    pub pleg: PlegHandle,
    /// Signals when no pod starts or stops.
    pub quiet_period: QuietPeriod,
}

/// Images of archives.
pub struct ImagePreload {
    /// Where the archives are, and how they are read.
    pub config: PreloadConfig,
    /// Where their images go.
    pub store: Arc<dyn ImageStore>,
}

/// The objects that pods refer to.
pub struct ObjectInputs {
    /// ConfigMaps, Secrets and the like.
    pub objects: Arc<dyn ObjectSource>,
    /// Variables of the cluster's services.
    pub services: ServiceEnv,
    /// The handlers of the cluster's runtime classes.
    pub runtime_classes: RuntimeClasses,
}

/// The volumes of CSI drivers.
pub struct CsiDeps {
    /// Publishes them.
    pub volumes: CsiVolumes,
    /// What the drivers want.
    pub drivers: DriverObjects,
    /// What claims say of the sizes of volumes; `None` without an API server.
    pub expansions: Option<Arc<dyn Expansions>>,
}

/// What pods can have for themselves.
pub struct GrantInputs {
    /// The devices of device plugins.
    pub devices: Devices,
    /// CPUs and memory of NUMA nodes.
    pub numa: NumaSettings,
}

/// Where pods come from. Each source says when it has reported all of its pods; nothing is removed before.
pub struct PodSources {
    /// The static pods.
    pub manifests: watch::Receiver<SourceState>,
    /// The API server's pods; ready and empty on a standalone node.
    pub api: watch::Receiver<ApiState>,
}

/// What is observed of this node.
pub struct NodeInputs {
    /// The allocatable resources: the value that the Node's status reports.
    pub own_node: watch::Receiver<OwnNode>,
    /// The node's pressures, which the engine publishes: the value that the Node's conditions report, too.
    pub pressure: watch::Sender<NodePressure>,
    /// How the limits of cgroups stand, which the engine publishes.
    pub limits: CgroupLimits,
    /// The Node object; `None` before registration and on a standalone node.
    pub object: watch::Receiver<Option<Arc<Node>>>,
    /// Reads the Node again, into `object`; `None` on a standalone node.
    pub reader: Option<Arc<dyn NodeReader>>,
    /// The node's addresses.
    pub addresses: NodeAddresses,
}

/// What the engine reaches of the host beside files and the runtime.
pub struct HostDeps {
    /// The ID of its boot, which changes with each.
    pub boot_id: Arc<str>,
    /// The mount table, and the mounts of volumes.
    pub mounts: Arc<dyn Mounts>,
    /// The label of containers' files by the SELinux policy; `None` without SELinux.
    pub file_label: Option<String>,
    /// systemd-logind.
    pub logind: Arc<dyn Logind>,
    /// Measures the filesystem of a path.
    pub measure: MeasureFilesystem,
}

/// Where events go.
pub struct EventSinks {
    /// Events of pods.
    pub pods: PodEvents,
    /// Events of the node.
    pub node: NodeEvents,
}

/// What stands between lifecycles and what they cause: nothing in the daemon, a test's own obstacles in a test.
pub struct Interception {
    /// Performs the work of pods with the worker's means.
    pub(crate) syncer: Box<dyn FnOnce(WorkerContext) -> Arc<dyn PodSyncer>>,
    /// Cleans up with the host's janitor.
    pub(crate) janitor: Box<dyn FnOnce(HostJanitor) -> Arc<dyn Janitor>>,
}

impl Default for Interception {
    fn default() -> Self {
        Self { syncer: Box::new(|context| Arc::new(context)), janitor: Box::new(|janitor| Arc::new(janitor)) }
    }
}
