//! The parts of the daemon that need no answer of the runtime, made and started in the order in which they need each other.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::cluster::{Cluster, ClusterInputs, ClusterOutputs};
use super::node_side::NodeSide;
use super::runtime::RuntimeSide;
use super::tasks::Tasks;
use crate::api::Connections;
use crate::config::{Config, ParallelPulls};
use crate::cri::RuntimeService;
use crate::image::preload::PreloadProblem;
use crate::image::{ContainerdArrivals, Images, PullLimits};
use crate::node::{AddressObserver, NodeAddresses, NodeEvents, NodeSight};
use crate::pod::admission::{Admission, AdmissionInputs, AdmittedPods, InheritedPod, Judged, RefusedPod};
use crate::pod::service_env::ServiceEnv;
use crate::pod::source::api::ApiState;
use crate::pod::source::{self, SourceConfig, SourceState};
use crate::pod::table::WantedPods;
use crate::pod::{PodEvents, StatusBoard};
use crate::server::ControlServer;
use crate::store::Store;
use crate::types::{PodEvent, PodRef, WallClock};
use crate::volume::objects::{ObjectSource, Standalone};

/// What the parts share.
pub(super) struct Parts {
    pub(super) node: NodeSide,
    pub(super) runtime: RuntimeSide,
    pub(super) store: Store,
    pub(super) board: StatusBoard,
    pub(super) events: PodEvents,
    pub(super) node_events: NodeEvents,
    pub(super) images: Images,
    pub(super) admitted: AdmittedPods,
    /// What the daemon before this one had admitted.
    pub(super) inherited: Vec<InheritedPod>,
    pub(super) wanted: watch::Receiver<WantedPods>,
    pub(super) objects: Arc<dyn ObjectSource>,
    pub(super) service_env: ServiceEnv,
    pub(super) addresses: NodeAddresses,
    /// What is wrong with archives of images.
    pub(super) preload: watch::Sender<Vec<PreloadProblem>>,
    /// Which shims that containerd forgot cannot be ended.
    pub(super) shims: watch::Sender<Option<String>>,
    manifests: watch::Receiver<SourceState>,
    api: watch::Receiver<ApiState>,
    refused: watch::Receiver<Vec<RefusedPod>>,
    connections: Connections,
}

impl Parts {
    pub(super) fn start(
        config: &Config,
        node: NodeSide,
        runtime: RuntimeSide,
        store: Store,
        cluster: Option<Cluster>,
        tasks: &mut Tasks,
    ) -> Self {
        let (admitted, inherited) = AdmittedPods::new(store.clone());
        let manifests = start_manifests(config, &inherited, tasks);
        let board = StatusBoard::default();
        // Alone there is no API server to wait for.
        let (api_in, api) = watch::channel(ApiState { ready: cluster.is_none(), ..ApiState::default() });
        let sight = NodeSight::default();
        let (show_addresses, addresses) = NodeAddresses::new();
        let observer = AddressObserver {
            settings: node.settings.clone(),
            node: cluster.is_some().then(|| sight.subscribe()),
        };
        tasks.spawn("addresses", observer.run(show_addresses, tasks.cancel()));
        let nobody = |_: &PodRef, _: Option<&str>, _: &PodEvent| {};
        let events = cluster.as_ref().map_or_else(|| -> PodEvents { Arc::new(nobody) }, Cluster::pod_events);
        let node_events: NodeEvents = match &cluster {
            Some(cluster) => cluster.node_events(&config.node_name),
            None => Arc::new(|_| {}),
        };

        let (wanted_in, wanted) = watch::channel(WantedPods::default());
        let (refused_in, refused) = watch::channel(Vec::new());
        let inputs = AdmissionInputs {
            manifests: manifests.clone(),
            api: api.clone(),
            own: node.view.clone(),
            node: sight.subscribe(),
            reader: cluster.as_ref().map(|cluster| cluster.node_reader(&node.settings, sight.clone())),
            board: board.clone(),
            allowed_unsafe_sysctls: config.pods.allowed_unsafe_sysctls.clone(),
        };
        let judged = Judged {
            wanted: wanted_in,
            refused: refused_in,
            admitted: admitted.clone(),
            events: events.clone(),
            clock: WallClock::system(),
        };
        tasks.spawn("admission", Admission::new(inputs, judged).run(tasks.cancel()));

        let images =
            Images::new(runtime.images.clone(), pull_limits(config), store.clone(), WallClock::system());
        let outputs = ClusterOutputs { api: api_in, node: sight };
        let connections = cluster.as_ref().map(Cluster::connections).unwrap_or_default();
        let (objects, service_env): (Arc<dyn ObjectSource>, _) = match cluster {
            Some(cluster) => {
                let inputs = ClusterInputs {
                    settings: node.settings.clone(),
                    addresses: addresses.clone(),
                    runtime: runtime.runtime.clone(),
                    images: runtime.images.clone(),
                    runtime_status: runtime.status.clone(),
                    ready_at: runtime.ready_at.clone(),
                    pleg: runtime.pleg.health(),
                    lull: runtime.calls.lull(),
                    board: board.clone(),
                    refused: refused.clone(),
                    wanted: wanted.clone(),
                    store: store.clone(),
                    events: node_events.clone(),
                    known: inherited.iter().filter_map(InheritedPod::of_api).collect(),
                };
                let (objects, services) = cluster.spawn(tasks, config, inputs, outputs);
                (Arc::new(objects), services)
            }
            None => (Arc::new(Standalone), ServiceEnv::none()),
        };
        Self {
            node,
            runtime,
            store,
            board,
            events,
            node_events,
            images,
            admitted,
            inherited,
            wanted,
            objects,
            service_env,
            addresses,
            preload: watch::Sender::new(Vec::new()),
            shims: watch::Sender::new(None),
            manifests,
            api,
            refused,
            connections,
        }
    }

    /// The runtime.
    pub(super) fn runtime(&self) -> &dyn RuntimeService {
        &*self.runtime.runtime
    }

    /// What people see of all this.
    pub(super) fn server(&self, config: &Config) -> ControlServer {
        let preload = |directory: PathBuf| (directory, self.preload.subscribe());
        ControlServer {
            node: config.node_name.clone(),
            board: self.board.clone(),
            refused: self.refused.clone(),
            source: self.manifests.clone(),
            api: self.api.clone(),
            runtime: self.runtime.status.clone(),
            pleg: self.runtime.pleg.clone(),
            calls: self.runtime.calls.clone(),
            runtime_images: self.runtime.images.clone(),
            images: self.images.clone(),
            arrivals: Arc::new(ContainerdArrivals::new(self.runtime.content.clone())),
            preload: config.image_preload_dir.clone().map(preload),
            store: self.store.trouble(),
            shims: self.shims.subscribe(),
            connections: self.connections.clone(),
        }
    }
}

fn start_manifests(
    config: &Config,
    inherited: &[InheritedPod],
    tasks: &mut Tasks,
) -> watch::Receiver<SourceState> {
    let (told, manifests) = watch::channel(SourceState::default());
    let source = SourceConfig {
        path: config.sources.static_pod_path.clone(),
        node_name: config.node_name.clone(),
        check_frequency: config.sources.file_check_frequency,
    };
    let known = inherited.iter().filter_map(InheritedPod::of_manifest).collect();
    tasks.spawn("manifests", source::run(source, known, told, tasks.cancel()));
    manifests
}

fn pull_limits(config: &Config) -> PullLimits {
    let (serialize, max_parallel) = match config.pulls.parallel {
        ParallelPulls::Serial => (true, None),
        ParallelPulls::AtMost(bound) => (false, Some(bound)),
        ParallelPulls::Unlimited => (false, None),
    };
    let qps = config.pulls.per_second.map_or(0, std::num::NonZeroU32::get);
    PullLimits { serialize, max_parallel, qps, burst: config.pulls.burst }
}
