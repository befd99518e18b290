//! One hollow node: its tasks, in the order of the daemon's.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use hostlet_base::node::PluginResources;
use hostlet_base::node::{NodeAddresses, NodeEvents, NodePressure};
use hostlet_base::{QuietPeriod, WallClock};
use hostlet_cluster::api_objects::{
    ApiObjects, OfflineObjects, ProjectionDeps, cached_runtime_classes, cached_services,
};
use hostlet_cluster::api_pods;
use hostlet_cluster::csi::{CsiNodeDeps, CsiNodeTask};
use hostlet_cluster::node::{
    ApiNodeReader, KernelConditions, LatestNode, LeaseTask, NodeFacts, NodeInputs, NodeSettings,
    NodeStatusTask, VolumesInUse, own_node, testing, watch_node,
};
use hostlet_cluster::publish::mirror::{MirrorDeps, Mirrors};
use hostlet_cluster::publish::status::{StatusManager, StatusManagerDeps};
use hostlet_csi::{CsiVolumes, DriverObjects};
use hostlet_dra::Claims;
use hostlet_engine::engine::{
    self, CsiDeps, Engine, EngineDeps, GrantInputs, Interception, ObjectInputs, PodSources, RuntimeDeps,
};
use hostlet_engine::grants::NumaSettings;
use hostlet_engine::ownership::OwnPods;
use hostlet_engine::source::SourceState;
use hostlet_observe::pleg::{Pleg, PlegHandle};
use hostlet_pod::ApiState;
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::{RuntimeService, RuntimeStatus, monitor};
use hostlet_store::Store;
use hostlet_telemetry::{Heartbeat, Metrics};
use kube::Client;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster::Clients;
use super::engine::{devices, host, images, make_root, running_host, settings};

/// What runs until it is cancelled.
pub(super) type Task = BoxFuture<'static, ()>;

/// A node before it runs.
pub(super) struct HollowNode {
    pub(super) settings: Arc<NodeSettings>,
    pub(super) facts: NodeFacts,
    pub(super) addresses: NodeAddresses,
    pub(super) runtime: FakeRuntime,
    pub(super) root: PathBuf,
    pub(super) clock: WallClock,
    kubeconfig: PathBuf,
}

impl HollowNode {
    /// The node `name` with this number, which has its address and its own directory, and joins with a kubeconfig.
    pub(super) fn new(number: u16, name: String, root: PathBuf, kubeconfig: PathBuf) -> Result<Self> {
        make_root(&root)?;
        let clock = WallClock::system();
        let [high, low] = number.to_be_bytes();
        let address: IpAddr = Ipv4Addr::new(10, 99, high, low).into();
        let settings = NodeSettings { name, max_pods: 110, server_port: None, ..testing::settings() };
        let runtime = FakeRuntime::starting_at(clock.now());
        runtime.add_image(super::IMAGE);
        Ok(Self {
            settings: Arc::new(settings),
            facts: testing::facts(),
            addresses: NodeAddresses::fixed([address]),
            runtime,
            root,
            clock,
            kubeconfig,
        })
    }

    /// Its tasks.
    pub(super) fn tasks(self, cancel: &CancellationToken) -> Result<Vec<Task>> {
        let clients = Clients::new(&self.kubeconfig, &self.settings.name)?;
        let sinks = clients.events(&self.settings.name);
        let (pod_events, node_events) = (sinks.pods.clone(), sinks.node.clone());
        let (client, node_client) = (clients.pods.normal.clone(), clients.node.clone());
        let mut tasks: Vec<Task> = Vec::new();
        tasks.push(Box::pin(clients.credentials.run(cancel.clone())));
        let shared = Shared::default();
        tasks.push(Box::pin(clients.sink.run(shared.quiet_period.clone(), cancel.clone())));
        let observed = self.observe(&mut tasks, cancel);
        let objects = objects(&client, &shared.store, &mut tasks, cancel);
        let (api_in, api) = watch::channel(ApiState::default());
        let reader = ApiNodeReader::new(
            node_client.clone(),
            self.settings.name.clone(),
            self.settings.request_timeout(),
            shared.latest_node.clone(),
        );
        let own = own_node(&self.settings, &self.facts.host.machine);
        let deps = EngineDeps {
            runtime: RuntimeDeps {
                service: Arc::new(self.runtime.clone()),
                images: Arc::new(self.runtime.clone()),
                status: observed.status.clone(),
                pleg: observed.pleg.clone(),
                quiet_period: shared.quiet_period.clone(),
            },
            images: images(&self, &shared.store),
            preload: None,
            objects,
            csi: CsiDeps { volumes: CsiVolumes::none(), drivers: DriverObjects::none(), expansions: None },
            claims: Claims::none(),
            grants: GrantInputs { devices: devices(&self), numa: NumaSettings::none() },
            sources: PodSources {
                manifests: watch::channel(SourceState { ready: true, ..SourceState::default() }).1,
                api: api.clone(),
            },
            node: engine::NodeInputs {
                own_node: watch::channel(own.clone()).1,
                pressure: shared.pressure.clone(),
                object: shared.latest_node.subscribe(),
                limits: watch::Sender::default(),
                reader: Some(Arc::new(reader)),
                addresses: self.addresses.clone(),
            },
            store: shared.store.clone(),
            own: OwnPods::default(),
            host: host(&self),
            events: sinks,
            clock: self.clock.clone(),
            random: StdRng::from_os_rng(),
            metrics: Metrics::default(),
            probe_metrics: Metrics::default(),
            interception: Interception::default(),
        };
        let (mut engine, handles) = Engine::build(settings(&self, &own), deps);
        let name = self.settings.name.clone();
        tasks.push(Box::pin(api_pods::run(client.clone(), name, Vec::new(), api_in, cancel.clone())));
        let manager = StatusManagerDeps {
            pods: handles.pods.clone(),
            timeline: handles.timeline.clone(),
            api: api.clone(),
            quiet_period: shared.quiet_period.clone(),
            clock: self.clock.clone(),
        };
        tasks.push(Box::pin(StatusManager::new(clients.pods, manager).run(cancel.clone())));
        let mirrors = MirrorDeps {
            desired_pods: handles.desired_pods.clone(),
            api,
            node: shared.latest_node.subscribe(),
            status_cache: handles.status_cache.clone(),
            timeline: handles.timeline.clone(),
            events: pod_events,
            clock: self.clock.clone(),
        };
        tasks.push(Box::pin(Mirrors::new(client, mirrors).run(cancel.clone())));
        let (csi_node, storage) = CsiNodeTask::new(CsiNodeDeps {
            client: node_client.clone(),
            settings: self.settings.clone(),
            latest_node: shared.latest_node.clone(),
            drivers: watch::Sender::default().subscribe(),
            store: shared.store.clone(),
            events: node_events.clone(),
        });
        tasks.push(Box::pin(csi_node.run(cancel.clone())));
        let inputs = NodeInputs {
            devices: watch::channel(PluginResources::default()).1,
            host: watch::channel(self.facts.host.machine.clone()).1,
            addresses: self.addresses.clone(),
            runtime: watch::channel(self.facts.runtime.clone()).1,
            status: observed.status,
            ready_at: observed.ready_at,
            pleg: observed.pleg.health(),
            pressure: shared.pressure.subscribe(),
            kernel: watch::channel(KernelConditions::default()).1,
            volumes_in_use: VolumesInUse::none(),
            storage,
            others: handles.shutdown.unready.clone(),
        };
        tasks.extend(self.node_tasks(&node_client, inputs, node_events, shared.latest_node, cancel));
        for task in engine.first_tasks().into_iter().chain(engine.tasks(running_host(&self, &own))) {
            tasks.push(task.run(Heartbeat::default(), cancel.clone()));
        }
        Ok(tasks)
    }

    /// Observes the runtime.
    fn observe(&self, tasks: &mut Vec<Task>, cancel: &CancellationToken) -> Observed {
        let runtime: Arc<dyn RuntimeService> = Arc::new(self.runtime.clone());
        let (status_in, status) = watch::channel(None);
        let (ready_in, ready_at) = watch::channel(None);
        tasks.push(Box::pin(monitor(runtime.clone(), status_in, ready_in, cancel.clone())));
        let (relister, pleg) = Pleg::new(runtime, StdRng::from_os_rng());
        tasks.push(Box::pin(relister.run(cancel.clone())));
        Observed { status, ready_at, pleg }
    }

    /// What keeps the Node and its lease.
    fn node_tasks(
        &self,
        client: &Client,
        inputs: NodeInputs,
        events: NodeEvents,
        latest_node: LatestNode,
        cancel: &CancellationToken,
    ) -> [Task; 3] {
        let (settings, clock) = (self.settings.clone(), self.clock.clone());
        let lease = LeaseTask::new(client.clone(), settings.clone(), latest_node.subscribe(), clock.clone());
        let watch = watch_node(client.clone(), settings.name.clone(), latest_node.clone(), cancel.clone());
        let status = NodeStatusTask::new(client.clone(), settings, inputs, events, clock, latest_node);
        [Box::pin(watch), Box::pin(status.run(cancel.clone())), Box::pin(lease.run(cancel.clone()))]
    }
}

/// What several tasks of a node share.
#[derive(Default)]
struct Shared {
    store: Store,
    quiet_period: QuietPeriod,
    latest_node: LatestNode,
    pressure: watch::Sender<NodePressure>,
}

/// What is observed of a runtime.
struct Observed {
    status: watch::Receiver<Option<RuntimeStatus>>,
    ready_at: watch::Receiver<Option<Instant>>,
    pleg: PlegHandle,
}

/// The objects that pods refer to.
fn objects(
    client: &Client,
    store: &Store,
    tasks: &mut Vec<Task>,
    cancel: &CancellationToken,
) -> ObjectInputs {
    let (task, objects) =
        ApiObjects::new(client.clone(), OfflineObjects::default(), ProjectionDeps::default());
    tasks.push(Box::pin(task.run(cancel.clone())));
    let (task, services) = cached_services(client.clone(), store.clone());
    tasks.push(Box::pin(task.run(cancel.clone())));
    let (task, runtime_classes) = cached_runtime_classes(client.clone(), store.clone());
    tasks.push(Box::pin(task.run(cancel.clone())));
    ObjectInputs { objects: Arc::new(objects), services, runtime_classes }
}
