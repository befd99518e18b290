//! One hollow node: its tasks, in the order of the daemon's.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use hostlet_base::node::NodeAddresses;
use hostlet_base::{QuietPeriod, WallClock};
use hostlet_cluster::api_objects::{ApiObjects, OfflineObjects, cached_runtime_classes, cached_services};
use hostlet_cluster::api_pods;
use hostlet_cluster::node::{
    ApiNodeReader, KernelConditions, LatestNode, LeaseTask, NodeFacts, NodeInputs, NodeSettings,
    NodeStatusTask, own_node, testing, watch_node,
};
use hostlet_cluster::publish::mirror::{MirrorDeps, Mirrors};
use hostlet_cluster::publish::status::{StatusManager, StatusManagerDeps};
use hostlet_engine::engine::{self, Engine, EngineDeps, Interception, ObjectInputs, PodSources};
use hostlet_engine::ownership::OwnPods;
use hostlet_engine::source::SourceState;
use hostlet_observe::pleg::Pleg;
use hostlet_pod::ApiState;
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::{RuntimeService, monitor};
use hostlet_store::Store;
use hostlet_telemetry::{Heartbeat, Metrics};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::Clients;
use super::engine::{host, images, make_root, running_host, runtime, settings};

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
        let name = self.settings.name.clone();
        let (client, store, quiet) = (clients.pods.normal.clone(), Store::default(), QuietPeriod::default());
        let mut tasks: Vec<Task> = Vec::new();
        let mut start = |task: Task| tasks.push(task);
        start(Box::pin(clients.credentials.run(cancel.clone())));
        start(Box::pin(clients.sink.run(quiet.clone(), cancel.clone())));

        let service: Arc<dyn RuntimeService> = Arc::new(self.runtime.clone());
        let (status_in, status) = watch::channel(None);
        let (ready_in, ready_at) = watch::channel(None);
        start(Box::pin(monitor(service.clone(), status_in, ready_in, cancel.clone())));
        let (pleg, pleg_handle) = Pleg::new(service, StdRng::from_os_rng());
        start(Box::pin(pleg.run(cancel.clone())));

        let (objects_task, objects) = ApiObjects::new(client.clone(), OfflineObjects::default());
        let (services_task, services) = cached_services(client.clone(), store.clone());
        let (classes_task, runtime_classes) = cached_runtime_classes(client.clone(), store.clone());
        start(Box::pin(objects_task.run(cancel.clone())));
        start(Box::pin(services_task.run(cancel.clone())));
        start(Box::pin(classes_task.run(cancel.clone())));

        let latest_node = LatestNode::default();
        let own = own_node(&self.settings, &self.facts.host.machine);
        let (api_in, api) = watch::channel(ApiState::default());
        let pressure = watch::Sender::default();
        let limit = self.settings.request_timeout();
        let reader = ApiNodeReader::new(clients.node.clone(), name.clone(), limit, latest_node.clone());
        let deps = EngineDeps {
            runtime: runtime(&self.runtime, status.clone(), pleg_handle.clone(), quiet.clone()),
            images: images(&self, &store),
            preload: None,
            objects: ObjectInputs { objects: Arc::new(objects), services, runtime_classes },
            sources: PodSources {
                manifests: watch::channel(SourceState { ready: true, ..SourceState::default() }).1,
                api: api.clone(),
            },
            node: engine::NodeInputs {
                own_node: watch::channel(own.clone()).1,
                pressure: pressure.clone(),
                limits: watch::Sender::default(),
                object: latest_node.subscribe(),
                reader: Some(Arc::new(reader)),
                addresses: self.addresses.clone(),
            },
            store: store.clone(),
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

        start(Box::pin(api_pods::run(client.clone(), name.clone(), Vec::new(), api_in, cancel.clone())));
        let manager = StatusManagerDeps {
            pods: handles.pods.clone(),
            timeline: handles.timeline.clone(),
            api: api.clone(),
            quiet_period: quiet,
            clock: self.clock.clone(),
        };
        start(Box::pin(StatusManager::new(clients.pods, manager).run(cancel.clone())));
        let mirrors = MirrorDeps {
            desired_pods: handles.desired_pods.clone(),
            api,
            node: latest_node.subscribe(),
            status_cache: handles.status_cache.clone(),
            timeline: handles.timeline.clone(),
            events: pod_events,
            clock: self.clock.clone(),
        };
        start(Box::pin(Mirrors::new(client, mirrors).run(cancel.clone())));
        start(Box::pin(watch_node(clients.node.clone(), name, latest_node.clone(), cancel.clone())));
        let inputs = NodeInputs {
            host: watch::channel(self.facts.host.machine.clone()).1,
            addresses: self.addresses.clone(),
            runtime: watch::channel(self.facts.runtime.clone()).1,
            status,
            ready_at,
            pleg: pleg_handle.health(),
            pressure: pressure.subscribe(),
            kernel: watch::channel(KernelConditions::default()).1,
            others: handles.shutdown.unready.clone(),
        };
        let node = latest_node.subscribe();
        let status = NodeStatusTask::new(
            clients.node.clone(),
            self.settings.clone(),
            inputs,
            node_events,
            self.clock.clone(),
            latest_node,
        );
        start(Box::pin(status.run(cancel.clone())));
        let lease = LeaseTask::new(clients.node, self.settings.clone(), node, self.clock.clone());
        start(Box::pin(lease.run(cancel.clone())));
        for task in engine.first_tasks().into_iter().chain(engine.tasks(running_host(&self, &own))) {
            start(task.run(Heartbeat::default(), cancel.clone()));
        }
        Ok(tasks)
    }
}
