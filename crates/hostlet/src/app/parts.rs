//! The parts of the daemon that do not need the runtime, created and started in order of their dependencies.

use std::sync::Arc;

use hostlet_base::node::{NodeAddresses, NodeEvent, NodeEvents, NodeReader};
use hostlet_base::{PodEvent, PodRef, WallClock};
use hostlet_cluster::api::{CertificateReport, Connections, register_certificate};
use hostlet_cluster::api_objects::OfflineObjects;
use hostlet_cluster::csi::{ApiExpansions, ExpansionDeps};
use hostlet_cluster::node::{
    AddressObserver, HostObserver, KernelConditions, KernelObserver, KernelObserverDeps, LatestNode,
    NodeDescriber, NodeInputs, PodCidrTask, RuntimeFacts, VolumesInUse, register_identity, register_process,
    register_start,
};
use hostlet_cluster::resource_slices::Dra;
use hostlet_config::Config;
use hostlet_csi::{CsiVolumes, Expansions, VolumesOnDisk};
use hostlet_devices::Devices;
use hostlet_dra::Claims;
use hostlet_engine::admission::AdoptedPod;
use hostlet_engine::engine::{
    self, CsiDeps, Engine, EngineDeps, EngineHandles, EventSinks, GrantInputs, HostDeps, Interception,
    ObjectInputs, PodSources, RuntimeDeps,
};
use hostlet_engine::housekeeping::{IPTABLES, IptablesChains, OtherKubelets};
use hostlet_engine::ownership::OwnPods;
use hostlet_engine::shutdown::{Reports, SystemBus};
use hostlet_engine::source::SourceState;
use hostlet_host::{KernelMounts, Mounts, container_file_label, filesystem_usage};
use hostlet_image::Images;
use hostlet_observe::log::LogWatches;
use hostlet_observe::stats::UsageStats;
use hostlet_observe::status::RecentEvents;
use hostlet_plugins::{PluginHandler, PluginList};
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{RuntimeClasses, Standalone};
use hostlet_pod::{ApiState, ContainerRef, PodEvents};
use hostlet_runtime::cri::RuntimeService;
use hostlet_serve::node_api::stats::Stats;
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;

use super::agents::{AgentInputs, serve_agents};
use super::claims::ClaimsSide;
use super::cluster::{Cluster, ClusterInputs, ClusterOutputs, projections};
use super::csi::{CsiPublication, CsiPublicationDeps, CsiSide, RegisteredDrivers, drivers_of_manifests};
use super::devices::devices;
use super::engine::{engine_settings, image_preload};
use super::images::start_images;
use super::manifests::start_manifests;
use super::node_side::NodeSide;
use super::offline::offline_objects;
use super::paths::{ETC, KERNEL_LOG, MOUNTINFO, PROC, ROOT, SYS};
use super::plugins::start_plugins;
use super::runtime::RuntimeSide;
use super::tasks::{Stage, Tasks};

/// What survives the daemon on this host.
pub(super) struct Records {
    pub(super) store: Store,
    pub(super) own: OwnPods,
    /// Volumes of CSI drivers that the disk tells of.
    pub(super) volumes: VolumesOnDisk,
}

/// Shared handles.
pub(super) struct Parts {
    pub(super) node: NodeSide,
    pub(super) runtime: RuntimeSide,
    /// What works on pods.
    pub(super) engine: Engine,
    /// What others see of the engine.
    pub(super) handles: EngineHandles,
    pub(super) store: Store,
    pub(super) node_events: NodeEvents,
    pub(super) recent: RecentEvents,
    pub(super) describer: NodeDescriber,
    pub(super) images: Images,
    pub(super) addresses: NodeAddresses,
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
    pub(super) csi_volumes: CsiVolumes,
    pub(super) claims: Claims,
    pub(super) devices: Devices,
    pub(super) kubelets: watch::Receiver<Option<String>>,
    /// Stored copies of objects.
    pub(super) offline: OfflineObjects,
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
        let Records { store, own, volumes } = records;
        let probe_metrics = Metrics::default();
        let started = WallClock::system().now();
        register_identity(&metrics, &config.node_name);
        register_process(&metrics, PROC.into());
        register_start(&metrics, started);
        register_start(&probe_metrics, started);
        let (manifests_in, manifests) = watch::channel(SourceState::default());
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
        let events = event_sinks(config, cluster.as_ref(), &recent);
        let node_events = events.node.clone();

        let (kernel_in, kernel) = watch::channel(KernelConditions::default());
        let observer = KernelObserver::new(KernelObserverDeps {
            log: KERNEL_LOG.into(),
            boot_id: node.machine.borrow().boot_id.clone(),
            has_conditions: config.kernel_conditions,
            store: store.clone(),
            events: node_events.clone(),
            conditions: kernel_in,
            node: latest_node.subscribe(),
        });
        observer.register(&metrics);
        // It keeps its position in the store, which a start that is rejected leaves as it is.
        tasks.spawn(Stage::Publish, "kernel log", |cancel| observer.run(cancel));

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
        let mounts: Arc<dyn Mounts> = Arc::new(KernelMounts { mountinfo: MOUNTINFO.into() });
        let boot = node.machine.borrow().boot_id.clone();
        let csi_side = CsiSide::start(config, &boot, store.clone(), mounts.clone(), volumes, &metrics, tasks);
        let claims_side = ClaimsSide::new(&config.root_dir, &boot, cluster.as_ref(), &dra, &metrics);
        let claims = claims_side.claims.clone();
        let (devices, device_handler, device_task) = devices(config, &metrics);
        if let Some(damage) = devices.damage() {
            node_events(NodeEvent::warning("DeviceCheckpointDamaged", damage));
        }
        tasks.spawn(Stage::Publish, "device plugins", |cancel| device_task.run(cancel));
        let handlers: [Arc<dyn PluginHandler>; 3] = [
            Arc::new(claims_side.drivers.clone()),
            Arc::new(csi_side.drivers.clone()),
            Arc::new(device_handler),
        ];
        let plugins = start_plugins(config, handlers, &node_events, &metrics, tasks);
        let images = start_images(config, &runtime, &store, &metrics, tasks);

        let offline = offline_objects(config, &store);
        let (file_objects, object_tasks, objects, driver_objects) = match &cluster {
            Some(cluster) => {
                let deps = projections(config, &latest_node, events.pods.clone());
                let (object_tasks, objects, drivers) =
                    cluster.objects(&store, offline.clone(), deps, &metrics);
                (None, Some(object_tasks), objects, drivers)
            }
            None => {
                // Without an API server, manifests also define the objects that pods refer to.
                let standalone = Standalone::default();
                let objects = ObjectInputs {
                    objects: Arc::new(standalone.clone()),
                    services: ServiceEnv::none(),
                    runtime_classes: RuntimeClasses::none(),
                };
                let drivers = drivers_of_manifests(&standalone, tasks);
                (Some(standalone), None, objects, drivers)
            }
        };
        let expansions = cluster.as_ref().map(|cluster| -> Arc<dyn Expansions> {
            Arc::new(ApiExpansions::new(ExpansionDeps {
                client: cluster.normal_client(),
                node_name: node.settings.name.clone(),
                pod_events: cluster.pod_events(),
                recorder: cluster.recorder(),
                clock: WallClock::system(),
            }))
        });
        let deps = EngineDeps {
            runtime: RuntimeDeps {
                service: runtime.runtime.clone(),
                images: runtime.images.clone(),
                status: runtime.status.clone(),
                pleg: runtime.pleg.clone(),
                quiet_period: runtime.calls.quiet_period(),
            },
            images: images.clone(),
            preload: image_preload(config, &runtime),
            objects,
            csi: CsiDeps {
                volumes: csi_side.volumes.clone(),
                drivers: driver_objects.clone(),
                expansions: expansions.clone(),
            },
            claims: claims.clone(),
            grants: GrantInputs { devices: devices.clone(), numa: node.numa.clone() },
            sources: PodSources { manifests: manifests.clone(), api: api.clone() },
            node: engine::NodeInputs {
                own_node: node.own_node.subscribe(),
                pressure: node.pressure.clone(),
                limits: node.limits.clone(),
                object: latest_node.subscribe(),
                reader: cluster.as_ref().map(|cluster| -> Arc<dyn NodeReader> {
                    Arc::new(cluster.node_reader(&node.settings, latest_node.clone()))
                }),
                addresses: addresses.clone(),
            },
            store: store.clone(),
            own,
            host: HostDeps {
                boot_id: node.machine.borrow().boot_id.as_str().into(),
                mounts,
                file_label: container_file_label(SYS.as_ref(), ETC.as_ref()),
                logind: Arc::new(SystemBus),
                measure: Arc::new(filesystem_usage),
            },
            events,
            clock: WallClock::system(),
            random: StdRng::from_os_rng(),
            metrics: metrics.clone(),
            probe_metrics,
            interception: Interception::default(),
        };
        let (mut engine, handles) = Engine::build(engine_settings(config, &node), deps);
        start_manifests(config, &handles.adopted, file_objects, manifests_in, tasks);
        tasks.spawn_engine(engine.first_tasks());
        let inputs = AgentInputs {
            pods: &handles.pods,
            devices: &devices,
            numa: &handles.numa,
            claims: &claims,
            manifests: manifests.clone(),
            api: api.clone(),
        };
        serve_agents(config, inputs, &metrics, tasks);

        let node_object = latest_node.subscribe();
        let volumes_in_use = VolumesInUse::new(csi_side.volumes.in_use());
        let csi = cluster.as_ref().map(|cluster| {
            let deps = CsiPublicationDeps {
                node_client: cluster.node_client(),
                client: cluster.normal_client(),
                settings: node.settings.clone(),
                latest_node: latest_node.clone(),
                objects: driver_objects.clone(),
                drivers: RegisteredDrivers::of(&csi_side.drivers),
                volumes_in_use: volumes_in_use.clone(),
                store: store.clone(),
                events: node_events.clone(),
            };
            CsiPublication::new(deps)
        });
        let csi_volumes = csi_side.volumes.clone();
        csi_side.spawn(csi.as_ref(), expansions, tasks);
        claims_side.spawn(tasks);
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
                pressure: node.pressure.subscribe(),
                kernel: kernel.clone(),
                volumes_in_use,
                devices: devices.capacity(),
                storage: csi.as_ref().map_or_else(|| watch::channel(None).1, |csi| csi.storage.clone()),
                others: handles.shutdown.unready.clone(),
            },
            latest: latest_node.subscribe(),
            limits: node.limits.subscribe(),
        };
        describer.inputs.clone().register_ready(&metrics);
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
        let progress = cluster.zip(object_tasks).zip(csi).map(|((cluster, objects), csi)| {
            let inputs = ClusterInputs {
                settings: node.settings.clone(),
                machine: node.machine.subscribe(),
                pressure: node.pressure.subscribe(),
                kernel,
                addresses: addresses.clone(),
                runtime: runtime.runtime.clone(),
                images: runtime.images.clone(),
                runtime_status: runtime.status.clone(),
                ready_at: runtime.ready_at.clone(),
                pleg: runtime.pleg.health(),
                quiet_period: runtime.calls.quiet_period(),
                status_cache: handles.status_cache.clone(),
                pods: handles.pods.clone(),
                timeline: handles.timeline.clone(),
                desired_pods: handles.desired_pods.clone(),
                volume_needs: handles.volume_needs.clone(),
                store: store.clone(),
                metrics: metrics.clone(),
                events: node_events.clone(),
                known: handles.adopted.iter().filter_map(AdoptedPod::of_api).collect(),
                unready: handles.shutdown.unready.clone(),
                devices: devices.capacity(),
                dra,
                csi,
                objects,
            };
            cluster.spawn(tasks, config, inputs, outputs)
        });
        let reports = progress.map(|statuses| Reports { statuses, node: node_object });
        Self {
            node,
            runtime,
            engine,
            handles,
            describer,
            store,
            node_events,
            recent,
            images,
            addresses,
            reports,
            manifests,
            api,
            connections,
            log_watches: LogWatches::default(),
            usage: watch::Sender::new(None),
            metrics,
            stats: Stats::default(),
            plugins,
            csi_volumes,
            claims,
            devices,
            kubelets,
            offline,
            exposure,
            certificate,
            started,
        }
    }

    pub(super) fn runtime(&self) -> &dyn RuntimeService {
        &*self.runtime.runtime
    }
}

/// Where events go: to the API server, if there is one, and to those who ask for recent ones.
fn event_sinks(config: &Config, cluster: Option<&Cluster>, recent: &RecentEvents) -> EventSinks {
    let no_events = |_: &PodRef, _: Option<&ContainerRef>, _: &PodEvent| {};
    let pods = cluster.map_or_else(|| -> PodEvents { Arc::new(no_events) }, Cluster::pod_events);
    let node: NodeEvents = match cluster {
        Some(cluster) => cluster.node_events(&config.node_name),
        None => Arc::new(|_| {}),
    };
    EventSinks { pods: recent.of_pods(pods), node: recent.of_node(&config.node_name, node) }
}
