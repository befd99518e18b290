//! The parts of the daemon that do not need the runtime, created and started in order of their dependencies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::cluster::{Cluster, ClusterInputs, ClusterObjects, ClusterOutputs};
use super::images::start_images;
use super::manifests::start_manifests;
use super::node_side::NodeSide;
use super::paths::{ETC, KERNEL_LOG, PROC, ROOT, SYS};
use super::plugins::start_plugins;
use super::runtime::RuntimeSide;
use super::tasks::{Stage, Tasks};
use hostlet_base::node::{NodeAddresses, NodeEvents, NodeReader};
use hostlet_base::{PodEvent, PodRef, PodUid, WallClock};
use hostlet_cluster::api::{CertificateReport, Connections, register_certificate};
use hostlet_cluster::node::{
    AddressObserver, HostObserver, LatestNode, NodeDescriber, NodeInputs, OomObserver, PodCidrTask,
    RuntimeFacts, register_identity, register_process, register_start,
};
use hostlet_cluster::resource_slices::Dra;
use hostlet_config::Config;
use hostlet_engine::admission::{Admission, AdmissionInputs, AdmissionOutputs, AdmittedPods, AdoptedPod};
use hostlet_engine::cri_config::KernelFacts;
use hostlet_engine::housekeeping::{IPTABLES, IptablesChains, OtherKubelets};
use hostlet_engine::ownership::OwnPods;
use hostlet_engine::probe::ProbeMetrics;
use hostlet_engine::shutdown::{Reports, Shutdown, ShutdownOutputs, ShutdownPeriods, ShutdownSettings};
use hostlet_engine::source::SourceState;
use hostlet_engine::worker::RestartRequests;
use hostlet_image::Images;
use hostlet_image::preload::PreloadProblem;
use hostlet_observe::log::LogWatches;
use hostlet_observe::stats::UsageStats;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{
    PodActivities, PodDirectory, PublishProgress, RecentEvents, StatusCache, register_resizes,
};
use hostlet_plugins::PluginList;
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{ObjectSource, RuntimeClasses, Standalone};
use hostlet_pod::{ApiState, ContainerRef, DesiredPods, FailingProbes, PodEvents, PodKill, ProbeResults};
use hostlet_runtime::cri::RuntimeService;
use hostlet_serve::kubelet_api::stats::Stats;
use hostlet_store::Store;
use hostlet_telemetry::Metrics;

/// The parts of a cluster, or what stands in for them: its objects, and how far the API server is behind.
type ClusterParts =
    (Arc<dyn ObjectSource>, ServiceEnv, RuntimeClasses, Option<watch::Receiver<PublishProgress>>);

/// What probes leave for the other parts.
#[derive(Default)]
pub(super) struct Probes {
    pub(super) results: ProbeResults,
    pub(super) failing: FailingProbes,
    pub(super) metrics: ProbeMetrics,
    /// Where only they are registered.
    pub(super) registry: Metrics,
}

/// What survives the daemon on this host.
pub(super) struct Records {
    pub(super) store: Store,
    pub(super) own: OwnPods,
}

/// Shared handles.
pub(super) struct Parts {
    pub(super) node: NodeSide,
    pub(super) runtime: RuntimeSide,
    pub(super) store: Store,
    pub(super) status_cache: StatusCache,
    /// What the workers of pods do.
    pub(super) activities: PodActivities,
    pub(super) timeline: Timeline,
    /// The pods of this node, also the rejected ones.
    pub(super) pods: PodDirectory,
    pub(super) events: PodEvents,
    pub(super) node_events: NodeEvents,
    pub(super) recent: RecentEvents,
    pub(super) restarts: RestartRequests,
    pub(super) probes: Probes,
    pub(super) describer: NodeDescriber,
    pub(super) images: Images,
    pub(super) admitted: AdmittedPods,
    /// Pods admitted by the previous daemon.
    pub(super) adopted: Vec<AdoptedPod>,
    pub(super) desired_pods: watch::Receiver<DesiredPods>,
    pub(super) objects: Arc<dyn ObjectSource>,
    pub(super) service_env: ServiceEnv,
    pub(super) runtime_classes: RuntimeClasses,
    pub(super) addresses: NodeAddresses,
    /// Problems of image archives.
    pub(super) preload: watch::Sender<Vec<PreloadProblem>>,
    /// The record of hostlet's own pods.
    pub(super) own: OwnPods,
    /// What pods of others have on this host.
    pub(super) foreign: watch::Sender<Option<String>>,
    /// Leftover shims that cannot be killed.
    pub(super) shims: watch::Sender<Option<String>>,
    /// Graceful node shutdown, not running yet.
    pub(super) shutdown: Shutdown,
    pub(super) shutdown_outputs: ShutdownOutputs,
    /// The pods that are evicted.
    pub(super) evicted: watch::Sender<BTreeMap<PodUid, PodKill>>,
    /// What the API server has of this node; `None` on a standalone node.
    pub(super) reports: Option<Reports>,
    pub(super) manifests: watch::Receiver<SourceState>,
    pub(super) api: watch::Receiver<ApiState>,
    pub(super) connections: Connections,
    pub(super) log_watches: LogWatches,
    /// What everything uses, once the runtime has answered.
    pub(super) usage: watch::Sender<Option<UsageStats>>,
    pub(super) metrics: Metrics,
    pub(super) stats: Stats,
    pub(super) plugins: PluginList,
    pub(super) kubelets: watch::Receiver<Option<String>>,
    pub(super) exposure: watch::Receiver<Option<String>>,
    pub(super) certificate: watch::Receiver<Option<CertificateReport>>,
    /// When the daemon started.
    pub(super) started: Timestamp,
}

impl Parts {
    pub(super) fn start(
        config: &Config,
        node: NodeSide,
        runtime: RuntimeSide,
        records: Records,
        cluster: Option<Cluster>,
        metrics: Metrics,
        tasks: &mut Tasks,
    ) -> Self {
        let Records { store, own } = records;
        let probes = Probes::default();
        probes.metrics.register(&probes.registry);
        let started = WallClock::system().now();
        register_identity(&metrics, &config.node_name);
        register_process(&metrics, PROC.into());
        register_start(&metrics, started);
        register_start(&probes.registry, started);
        let (admitted, adopted) = AdmittedPods::new(store.clone());
        // Without an API server, manifests also define the objects that pods refer to.
        let standalone = Standalone::default();
        let file_objects = cluster.is_none().then(|| standalone.clone());
        let manifests = start_manifests(config, &adopted, file_objects, tasks);
        let shutdown = Shutdown::new(shutdown_settings(config), store.clone(), &metrics);
        let shutdown_outputs = shutdown.outputs();
        let (status_cache, timeline) = (StatusCache::default(), Timeline::default());
        register_resizes(&metrics, &status_cache);
        // A standalone host has no API server to wait for.
        let (api_in, api) = watch::channel(ApiState { ready: cluster.is_none(), ..ApiState::default() });
        let latest_node = LatestNode::default();
        let (show_addresses, addresses) = NodeAddresses::new();
        let observer = AddressObserver {
            settings: node.settings.clone(),
            node: cluster.is_some().then(|| latest_node.subscribe()),
        };
        tasks.spawn(Stage::Support, "addresses", |cancel| observer.run(show_addresses, cancel));
        let observer = HostObserver {
            root: ROOT.into(),
            own: config.root_dir.clone(),
            settings: node.settings.clone(),
            machine: node.machine.clone(),
            own_node: node.own_node.clone(),
        };
        tasks.spawn(Stage::Support, "host observer", |cancel| observer.run(cancel));
        let recent = RecentEvents::new(WallClock::system());
        let no_events = |_: &PodRef, _: Option<&ContainerRef>, _: &PodEvent| {};
        let events =
            cluster.as_ref().map_or_else(|| -> PodEvents { Arc::new(no_events) }, Cluster::pod_events);
        let events = recent.of_pods(events);
        let node_events: NodeEvents = match &cluster {
            Some(cluster) => cluster.node_events(&config.node_name),
            None => Arc::new(|_| {}),
        };
        let node_events = recent.of_node(&config.node_name, node_events);

        let observer = OomObserver { log: KERNEL_LOG.into(), events: node_events.clone() };
        tasks.spawn(Stage::Support, "kernel log", |cancel| observer.run(cancel));

        let (kubelets_in, kubelets) = watch::channel(None);
        let others = OtherKubelets {
            socket: config.runtime.runtime_socket.clone(),
            proc: PROC.into(),
            problem: kubelets_in,
            events: node_events.clone(),
        };
        tasks.spawn(Stage::Support, "other kubelets", |cancel| others.run(cancel));

        if config.host.iptables_chains {
            let chains = IptablesChains {
                programs: IPTABLES.map(|(program, family)| (program.into(), family)).into(),
            };
            tasks.spawn(Stage::Node, "iptables chains", |cancel| chains.run(cancel));
        }

        let dra = Dra::new(WallClock::system());
        dra.register(&metrics);
        let plugins = start_plugins(config, &dra, &node_events, &metrics, tasks);

        let (desired_in, desired_pods) = watch::channel(DesiredPods::default());
        let (rejected_in, rejected) = watch::channel(Vec::new());
        let pods = PodDirectory::new(status_cache.clone(), rejected, api.clone());
        let evicted = watch::Sender::default();
        let inputs = AdmissionInputs {
            manifests: manifests.clone(),
            api: api.clone(),
            own: node.view.clone(),
            own_node: node.own_node.subscribe(),
            crossed: node.crossed.subscribe(),
            node: latest_node.subscribe(),
            reader: cluster.as_ref().map(|cluster| -> Arc<dyn NodeReader> {
                Arc::new(cluster.node_reader(&node.settings, latest_node.clone()))
            }),
            status_cache: status_cache.clone(),
            allowed_unsafe_sysctls: config.pods.allowed_unsafe_sysctls.clone(),
            has_swap: has_swap(config),
            runtime: runtime.status.clone(),
            shutdown: shutdown_outputs.demands.clone(),
            evicted: evicted.subscribe(),
        };
        let outputs = AdmissionOutputs {
            desired_pods: desired_in,
            rejected: rejected_in,
            admitted: admitted.clone(),
            events: events.clone(),
            timeline: timeline.clone(),
            clock: WallClock::system(),
        };
        let admission = Admission::new(inputs, outputs).counted_in(&metrics);
        let admission = admission.with_heartbeat(tasks.heartbeat("admission"));
        tasks.spawn(Stage::Pods, "admission", |cancel| admission.run(cancel));

        let images = start_images(config, &runtime, &store, &metrics, tasks);
        let node_object = latest_node.subscribe();
        let describer = NodeDescriber {
            settings: node.settings.clone(),
            inputs: NodeInputs {
                host: node.machine.subscribe(),
                addresses: addresses.clone(),
                // Each description asks the runtime.
                runtime: watch::channel(RuntimeFacts::default()).1,
                status: runtime.status.clone(),
                ready_at: runtime.ready_at.clone(),
                pleg: runtime.pleg.health(),
                crossed: node.crossed.subscribe(),
                others: shutdown_outputs.unready.clone(),
            },
            latest: latest_node.subscribe(),
        };
        let pod_cidr = PodCidrTask {
            runtime: runtime.runtime.clone(),
            configured: config.runtime.pod_cidr.clone(),
            node: latest_node.subscribe(),
        };
        // It changes the runtime, which may turn out to be somebody else's.
        tasks.spawn(Stage::Node, "pod CIDR", |cancel| pod_cidr.run(cancel));
        let outputs = ClusterOutputs { api: api_in, node: latest_node };
        let connections = cluster.as_ref().map(Cluster::connections).unwrap_or_default();
        connections.register(&metrics);
        let exposure = cluster.as_ref().map_or_else(|| watch::channel(None).1, Cluster::exposure);
        let certificate = cluster.as_ref().map_or_else(|| watch::channel(None).1, Cluster::certificate);
        if cluster.is_some() {
            register_certificate(&metrics, certificate.clone(), WallClock::system());
        }
        let (objects, service_env, runtime_classes, progress): ClusterParts = match cluster {
            Some(cluster) => {
                let inputs = ClusterInputs {
                    settings: node.settings.clone(),
                    machine: node.machine.subscribe(),
                    crossed: node.crossed.subscribe(),
                    addresses: addresses.clone(),
                    runtime: runtime.runtime.clone(),
                    images: runtime.images.clone(),
                    runtime_status: runtime.status.clone(),
                    ready_at: runtime.ready_at.clone(),
                    pleg: runtime.pleg.health(),
                    quiet_period: runtime.calls.quiet_period(),
                    status_cache: status_cache.clone(),
                    pods: pods.clone(),
                    timeline: timeline.clone(),
                    desired_pods: desired_pods.clone(),
                    store: store.clone(),
                    metrics: metrics.clone(),
                    events: node_events.clone(),
                    known: adopted.iter().filter_map(AdoptedPod::of_api).collect(),
                    unready: shutdown_outputs.unready.clone(),
                    dra,
                };
                let (objects, progress) = cluster.spawn(tasks, config, inputs, outputs);
                let ClusterObjects { objects, services, runtime_classes } = objects;
                (Arc::new(objects), services, runtime_classes, Some(progress))
            }
            None => (Arc::new(standalone), ServiceEnv::none(), RuntimeClasses::none(), None),
        };
        let reports = progress.map(|statuses| Reports { statuses, node: node_object });
        let restarts = RestartRequests::new(store.clone());
        Self {
            node,
            runtime,
            restarts,
            probes,
            describer,
            store,
            status_cache,
            activities: PodActivities::new(timeline.clone()),
            timeline,
            pods,
            events,
            node_events,
            recent,
            images,
            admitted,
            adopted,
            desired_pods,
            objects,
            service_env,
            runtime_classes,
            addresses,
            preload: watch::Sender::new(Vec::new()),
            own,
            foreign: watch::Sender::new(None),
            shims: watch::Sender::new(None),
            shutdown,
            shutdown_outputs,
            evicted,
            reports,
            manifests,
            api,
            connections,
            log_watches: LogWatches::default(),
            usage: watch::Sender::new(None),
            metrics,
            stats: Stats::default(),
            plugins,
            kubelets,
            exposure,
            certificate,
            started,
        }
    }

    /// The runtime.
    pub(super) fn runtime(&self) -> &dyn RuntimeService {
        &*self.runtime.runtime
    }
}

fn shutdown_settings(config: &Config) -> ShutdownSettings {
    ShutdownSettings {
        periods: ShutdownPeriods::new(&config.shutdown),
        is_recorded: config.shutdown.is_recorded,
        root_dir: config.root_dir.clone(),
        etc: ETC.into(),
    }
}

/// Whether containers may swap: only on cgroup v2 with the controller for it.
fn has_swap(config: &Config) -> bool {
    config.cgroups.limited_swap && KernelFacts::read(Path::new(SYS), Path::new(PROC), true).swap_controller
}
