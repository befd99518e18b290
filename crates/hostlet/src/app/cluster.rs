//! Wires the parts that use the API server: its clients and tasks. They communicate through watch channels, so that an unreachable
//! server blocks nothing.

use std::sync::Arc;

use hostlet_base::node::{NodeAddresses, NodeEvents, NodePressure, PluginResources};
use hostlet_base::{QuietPeriod, WallClock, architecture};
use hostlet_cluster::api::events::{EventRecord, EventRecorder, EventSink, recorder};
use hostlet_cluster::api::{
    CertificateReport, CertificateSettings, ClientCertificateTask, ClientOptions, ConnectError, Connections,
    Credentials, CredentialsSource, CredentialsTask, PrioritizedClients, Purpose, connect,
    connect_prioritized,
};
use hostlet_cluster::api_objects::{
    ApiObjects, CacheTask, CertificateDeps, ObjectsTask, OfflineObjects, OfflineObjectsTask, OfflineUsers,
    ProjectionDeps, cached_csi_drivers, cached_runtime_classes, cached_services,
};
use hostlet_cluster::api_pods;
use hostlet_cluster::node::{
    ApiNodeReader, FormerDevices, KernelConditions, LatestNode, LeaseTask, NodeInputs, NodeSettings,
    NodeStatusTask, RuntimeFacts, observe_runtime, watch_node,
};
use hostlet_cluster::publish::mirror::{MirrorDeps, Mirrors};
use hostlet_cluster::publish::status::{StatusManager, StatusManagerDeps};
use hostlet_cluster::resource_slices::{Dra, DraSettings, DraTask};
use hostlet_config::{ClusterConfig, Config};
use hostlet_csi::{DriverObjects, KnownDrivers};
use hostlet_engine::engine::ObjectInputs;
use hostlet_engine::worker::object_references;
use hostlet_host::Machine;
use hostlet_net::http::ProxyEnvironment;
use hostlet_net::tls::CertificateStore;
use hostlet_observe::pleg;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{PodDirectory, PublishProgress, StatusCache};
use hostlet_pod::objects::services::KnownServices;
use hostlet_pod::objects::{KnownClasses, VolumeNeeds};
use hostlet_pod::{ApiState, DesiredPods, PodEvents};
use hostlet_runtime::cri::{ImageService, RuntimeService, RuntimeStatus};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;

use super::csi::CsiPublication;
use super::node_events::starting_event;
use super::tasks::{Stage, Tasks};

/// Clients of the API server.
pub(super) struct Cluster {
    credentials: CredentialsTask,
    certificates: ClientCertificateTask,
    /// For pods and the objects they refer to, within `kubeAPIQPS`; with priority for what others wait for.
    clients: PrioritizedClients,
    /// For the Node and its lease, which must not queue.
    node_client: Client,
    /// For questions about the clients of the node's API, which must neither queue nor be made on the threads of others.
    reviews: Client,
    recorder: EventRecorder,
    sink: EventSink,
    connections: Connections,
    exposure: watch::Receiver<Option<String>>,
    certificate: watch::Receiver<Option<CertificateReport>>,
}

/// Inputs of the cluster's tasks.
pub(super) struct ClusterInputs {
    pub(super) settings: Arc<NodeSettings>,
    pub(super) machine: watch::Receiver<Machine>,
    pub(super) pressure: watch::Receiver<NodePressure>,
    pub(super) kernel: watch::Receiver<KernelConditions>,
    pub(super) addresses: NodeAddresses,
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) images: Arc<dyn ImageService>,
    pub(super) runtime_status: watch::Receiver<Option<RuntimeStatus>>,
    pub(super) ready_at: watch::Receiver<Option<Instant>>,
    pub(super) pleg: watch::Receiver<pleg::Health>,
    pub(super) quiet_period: QuietPeriod,
    pub(super) status_cache: StatusCache,
    pub(super) pods: PodDirectory,
    pub(super) timeline: Timeline,
    pub(super) desired_pods: watch::Receiver<DesiredPods>,
    pub(super) volume_needs: watch::Receiver<VolumeNeeds>,
    pub(super) store: Store,
    /// Recorder of node events.
    pub(super) events: NodeEvents,
    /// Pods of the API server admitted by the previous daemon.
    pub(super) known: Vec<Arc<Pod>>,
    pub(super) metrics: Metrics,
    /// What else keeps the node from being ready.
    pub(super) unready: watch::Receiver<Vec<String>>,
    /// What device plugins offer.
    pub(super) devices: watch::Receiver<PluginResources>,
    /// The DRA drivers of this node.
    pub(super) dra: Dra,
    pub(super) csi: CsiPublication,
    pub(super) objects: ObjectTasks,
}

/// Outputs of the cluster's tasks.
pub(super) struct ClusterOutputs {
    pub(super) api: watch::Sender<ApiState>,
    pub(super) node: LatestNode,
}

/// The tasks that read the objects to which pods refer, before they run.
pub(super) struct ObjectTasks {
    objects: ObjectsTask,
    /// Copies of them for starts without the API server.
    offline: OfflineObjects,
    services: CacheTask<KnownServices>,
    runtime_classes: CacheTask<KnownClasses>,
    csi_drivers: CacheTask<KnownDrivers>,
}

impl Cluster {
    /// Creates the clients. The server, the kubeconfig and its files may be unavailable: pods come first.
    pub(super) fn new(joined: &ClusterConfig, node_name: &str) -> Result<Self, ConnectError> {
        let connections = Connections::default();
        let connection = |purpose, limit| ClientOptions {
            user_agent: format!("hostlet/v{} (linux/{})", env!("CARGO_PKG_VERSION"), architecture()),
            limit,
            purpose,
            connections: connections.clone(),
        };
        let proxies = ProxyEnvironment::of_process();
        let store = CertificateStore::of_client(&joined.cert_dir);
        let source = CredentialsSource::new(joined.kubeconfig.clone()).with_proxies(proxies.clone());
        let source = if joined.rotate_certificates { source.with_store(store.clone()) } else { source };
        let (credentials_task, credentials) = Credentials::new(source);
        let exposure = credentials.exposure();
        let requests = Some(joined.requests);
        let clients = connect_prioritized(&connection(Purpose::Pods, requests), credentials.clone())?;
        let node_client = connect(&connection(Purpose::Node, None), credentials.clone())?;
        // Strangers cause reviews, so that they have a limit, and one of their own.
        let reviews = connect(&connection(Purpose::Reviews, requests), credentials.clone())?;
        let event_client = connect(&connection(Purpose::Events, joined.events), credentials.clone())?;
        let (recorder, sink) = recorder(event_client, node_name.to_owned(), WallClock::system());
        let bootstrap = joined.bootstrap_kubeconfig.clone();
        let settings = CertificateSettings {
            node: node_name.to_owned(),
            kubeconfig: joined.kubeconfig.clone(),
            bootstrap: bootstrap.map(|path| CredentialsSource::bootstrap(path).with_proxies(proxies)),
            rotates: joined.rotate_certificates,
            store,
            clock: WallClock::system(),
        };
        let bootstrap = connection(Purpose::Bootstrap, None);
        let connect = move |credentials| connect(&bootstrap, credentials);
        let chance = StdRng::from_os_rng();
        let (certificates, certificate) =
            ClientCertificateTask::new(settings, credentials, node_client.clone(), connect, chance);
        Ok(Self {
            credentials: credentials_task,
            certificates,
            clients,
            node_client,
            reviews,
            recorder,
            sink,
            connections,
            exposure,
            certificate,
        })
    }

    /// The client for questions about the clients of the node's API.
    pub(super) fn reviews(&self) -> Client {
        self.reviews.clone()
    }

    /// The client of requests that can wait.
    pub(super) fn normal_client(&self) -> Client {
        self.clients.normal.clone()
    }

    /// The client for the Node and what is as urgent.
    pub(super) fn node_client(&self) -> Client {
        self.node_client.clone()
    }

    /// The connections to the API server.
    pub(super) fn connections(&self) -> Connections {
        self.connections.clone()
    }

    /// Who else can read the credentials.
    pub(super) fn exposure(&self) -> watch::Receiver<Option<String>> {
        self.exposure.clone()
    }

    /// The state of the client certificate.
    pub(super) fn certificate(&self) -> watch::Receiver<Option<CertificateReport>> {
        self.certificate.clone()
    }

    /// Recorder of events.
    pub(super) fn recorder(&self) -> EventRecorder {
        self.recorder.clone()
    }

    /// Recorder of pod events.
    pub(super) fn pod_events(&self) -> PodEvents {
        let recorder = self.recorder.clone();
        Arc::new(move |pod, container, event| recorder.record(EventRecord::of_pod(pod, container, event)))
    }

    /// Recorder of node events.
    pub(super) fn node_events(&self, node_name: &str) -> NodeEvents {
        let (recorder, node_name) = (self.recorder.clone(), node_name.to_owned());
        // They are few, and a node that shuts down has no quiet period to wait for.
        Arc::new(move |event| recorder.record_at_once(EventRecord::of_node(&node_name, event)))
    }

    /// Reads the current Node.
    pub(super) fn node_reader(&self, settings: &NodeSettings, latest_node: LatestNode) -> ApiNodeReader {
        let limit = settings.request_timeout();
        ApiNodeReader::new(self.node_client.clone(), settings.name.clone(), limit, latest_node)
    }

    /// The objects that pods refer to, and the tasks that read them.
    pub(super) fn objects(
        &self,
        store: &Store,
        offline: OfflineObjects,
        projections: ProjectionDeps,
        metrics: &Metrics,
    ) -> (ObjectTasks, ObjectInputs, DriverObjects) {
        let client = &self.clients.normal;
        let (objects_task, objects) = ApiObjects::new(client.clone(), offline.clone(), projections);
        objects.register(metrics);
        let (services_task, services) = cached_services(client.clone(), store.clone());
        let (classes_task, runtime_classes) = cached_runtime_classes(client.clone(), store.clone());
        let (drivers_task, csi_drivers) = cached_csi_drivers(client.clone(), store.clone());
        let tasks = ObjectTasks {
            objects: objects_task,
            offline,
            services: services_task,
            runtime_classes: classes_task,
            csi_drivers: drivers_task,
        };
        let objects = ObjectInputs { objects: Arc::new(objects), services, runtime_classes };
        (tasks, objects, csi_drivers)
    }

    /// Starts all tasks that use the API server. Returns how far that is behind.
    pub(super) fn spawn(
        self,
        tasks: &mut Tasks,
        config: &Config,
        inputs: ClusterInputs,
        outputs: ClusterOutputs,
    ) -> watch::Receiver<PublishProgress> {
        let clock = WallClock::system();
        let events = self.pod_events();
        let Self { credentials, certificates, clients, node_client, sink, .. } = self;
        let client = clients.normal.clone();
        let credentials = credentials.with_rescan(tasks.rescan().subscribe());
        tasks.spawn_reader(Stage::Lease, "credentials", |cancel| credentials.run(cancel));
        certificates.register(&inputs.metrics);
        tasks.spawn(Stage::Node, "client certificate", |cancel| certificates.run(cancel));
        let quiet_period = inputs.quiet_period.clone();
        tasks.spawn(Stage::Publish, "events", |cancel| sink.run(quiet_period, cancel));

        let (node_name, api) = (config.node_name.clone(), outputs.api.subscribe());
        tasks.spawn_reader(Stage::Pods, "API pods", |cancel| {
            api_pods::run(client.clone(), node_name.clone(), inputs.known, outputs.api, cancel)
        });
        let sources = StatusManagerDeps {
            pods: inputs.pods,
            timeline: inputs.timeline.clone(),
            api: api.clone(),
            quiet_period: inputs.quiet_period,
            clock: clock.clone(),
        };
        let manager = StatusManager::new(clients, sources);
        manager.register(&inputs.metrics);
        let progress = manager.progress();
        tasks.spawn(Stage::Publish, "status manager", |cancel| manager.run(cancel));
        let node = outputs.node.subscribe();
        tasks.spawn(Stage::Support, "node watch", |cancel| {
            watch_node(node_client.clone(), node_name, outputs.node.clone(), cancel)
        });
        let slices_client = client.clone();
        let ObjectTasks { objects, offline, services, runtime_classes, csi_drivers } = inputs.objects;
        tasks.spawn(Stage::Support, "objects", |cancel| objects.run(cancel));
        offline.register(&inputs.metrics);
        let users = OfflineUsers {
            desired_pods: inputs.desired_pods.clone(),
            references: object_references,
            volume_needs: inputs.volume_needs,
        };
        let offline = OfflineObjectsTask::new(offline, users);
        tasks.spawn(Stage::Support, "offline objects", |cancel| offline.run(cancel));
        tasks.spawn(Stage::Support, "services", |cancel| services.run(cancel));
        tasks.spawn(Stage::Support, "runtime classes", |cancel| runtime_classes.run(cancel));
        tasks.spawn(Stage::Support, "CSIDriver objects", |cancel| csi_drivers.run(cancel));
        let sources = MirrorDeps {
            desired_pods: inputs.desired_pods,
            api,
            node: node.clone(),
            status_cache: inputs.status_cache,
            timeline: inputs.timeline,
            events,
            clock: clock.clone(),
        };
        tasks.spawn(Stage::Publish, "mirrors", |cancel| Mirrors::new(client, sources).run(cancel));

        let (facts_in, runtime) = watch::channel(RuntimeFacts::default());
        tasks.spawn(Stage::Support, "runtime observer", |cancel| {
            observe_runtime(inputs.runtime, inputs.images, facts_in, cancel)
        });
        (inputs.events)(starting_event());
        let publishes = config.cluster.as_ref().is_some_and(|joined| joined.publish_resource_slices);
        let settings = DraSettings { node: config.node_name.clone(), publishes };
        let slices = DraTask::new(&inputs.dra, settings, slices_client, node.clone(), inputs.events.clone());
        tasks.spawn(Stage::Publish, "resource slices", |cancel| slices.run(cancel));
        let observed = NodeInputs {
            host: inputs.machine,
            addresses: inputs.addresses,
            runtime,
            status: inputs.runtime_status,
            ready_at: inputs.ready_at,
            pleg: inputs.pleg,
            pressure: inputs.pressure,
            kernel: inputs.kernel,
            volumes_in_use: inputs.csi.volumes_in_use.clone(),
            devices: inputs.devices,
            storage: inputs.csi.storage.clone(),
            others: inputs.unready,
        };
        inputs.csi.spawn(tasks);
        let status = NodeStatusTask::new(
            node_client.clone(),
            inputs.settings.clone(),
            observed,
            inputs.events,
            clock.clone(),
            outputs.node,
        );
        let status = status.with_former_devices(FormerDevices::new(inputs.store));
        let status = status.with_heartbeat(tasks.heartbeat("node status"));
        tasks.spawn(Stage::Node, "node status", |cancel| status.run(cancel));
        let lease = LeaseTask::new(node_client, inputs.settings, node, clock);
        let lease = lease.with_heartbeat(tasks.heartbeat("lease"));
        tasks.spawn(Stage::Lease, "lease", |cancel| lease.run(cancel));
        progress
    }
}

/// Which of the newer sources of projected volumes pods get, and with what.
pub(super) fn projections(config: &Config, latest_node: &LatestNode, events: PodEvents) -> ProjectionDeps {
    let enabled = config.cluster.as_ref().map(|joined| joined.projections);
    let certificates = || CertificateDeps {
        node_name: config.node_name.clone(),
        node: latest_node.subscribe(),
        events,
        clock: WallClock::system(),
    };
    ProjectionDeps {
        trust_bundles: enabled.is_some_and(|enabled| enabled.trust_bundles),
        certificates: enabled.is_some_and(|enabled| enabled.pod_certificates).then(certificates),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use axum::Router;
    use axum::body::Bytes;
    use hostlet_base::{PodEvent, PodRef};
    use hostlet_config::Projections;
    use http::{Method, Request, Uri};
    use parking_lot::Mutex;
    use tempfile::TempDir;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// How many requests a client may make at once. At one per second, as many again take a hundred seconds.
    const BURST: u32 = 100;

    /// The number of requests by the last part of their path.
    type Seen = Arc<Mutex<BTreeMap<String, u32>>>;

    /// A server that answers with what it gets.
    fn echo(seen: Seen) -> Router {
        Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let kind = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
            *seen.lock().entry(kind).or_default() += 1;
            let answer = if method == Method::POST { body } else { Bytes::from_static(b"{}") };
            std::future::ready(answer)
        })
    }

    async fn get(client: Client, path: &str) {
        client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn pods_reviews_and_events_have_limits_of_their_own_and_the_node_has_none() {
        let (dir, seen, mut tasks) = (TempDir::new().unwrap(), Seen::default(), JoinSet::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let router = echo(seen.clone());
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let kubeconfig = dir.path().join("kubeconfig");
        let text = format!(
            "clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n\
             contexts: [{{name: c, context: {{cluster: a, user: u}}}}]\ncurrent-context: c\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let limit = (NonZeroU32::MIN, NonZeroU32::new(BURST).unwrap());
        let joined = ClusterConfig {
            kubeconfig,
            bootstrap_kubeconfig: None,
            cert_dir: dir.path().to_owned(),
            rotate_certificates: false,
            requests: limit,
            events: Some(limit),
            offline_objects: true,
            publish_resource_slices: false,
            projections: Projections { trust_bundles: true, pod_certificates: true },
        };
        let cluster = Cluster::new(&joined, "node1").unwrap();
        let (events, cancel) = (cluster.pod_events(), CancellationToken::new());
        let Cluster { credentials, clients, node_client, reviews, sink, .. } = cluster;
        let client = clients.normal;
        tasks.spawn(credentials.run(cancel.clone()));
        tasks.spawn(sink.run(QuietPeriod::default(), cancel));

        for n in 0..2 * BURST {
            let pod = PodRef::new("default", &format!("p{n}"), &format!("u{n}"));
            events(&pod, None, &PodEvent::warning("Failed", "no"));
        }
        for (client, path) in [(client, "/pods"), (reviews, "/reviews")] {
            for _ in 0..BURST {
                get(client.clone(), path).await;
            }
            for _ in 0..BURST {
                tasks.spawn(get(client.clone(), path));
            }
        }
        let burst_of_events = async {
            while seen.lock().get("events").is_none_or(|events| *events < BURST) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), burst_of_events).await.unwrap();
        for _ in 0..2 * BURST {
            get(node_client.clone(), "/node").await;
        }
        let seen = seen.lock();
        assert_eq!(seen["node"], 2 * BURST);
        for kind in ["events", "pods", "reviews"] {
            assert!((BURST..2 * BURST).contains(&seen[kind]), "{kind}: {seen:?}");
        }
    }
}
