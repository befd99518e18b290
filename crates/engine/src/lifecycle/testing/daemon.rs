//! A daemon of the in-memory node: the engine that ships, built with fakes, and its tasks.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::OwnNode;
use hostlet_base::resources::PODS;
use hostlet_base::settings::{ImageGcPolicy, ImageVerification};
use hostlet_base::testing::resource_list;
use hostlet_base::{Quantity, QuietPeriod, ResourceList};
use hostlet_csi::{CsiVolumes, DriverObjects};
use hostlet_devices::{Devices, DevicesSettings};
use hostlet_host::KernelMounts;
use hostlet_image::Images;
use hostlet_image::credentials::RegistryCredentials;
use hostlet_observe::pleg::{Pleg, PlegHandle};
use hostlet_observe::status::StatusGates;
use hostlet_pod::{DesiredPods, PodEvents};
use hostlet_resources::NodeResources;
use hostlet_store::Store;
use hostlet_telemetry::{Heartbeat, Heartbeats, Metrics};
use hostlet_volume::NodeAmounts;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Node;
use crate::admission::{AdmittedPods, NodeView};
use crate::cri_config::testing::host;
use crate::cri_config::{HostSettings, SubordinateIds};
use crate::engine::{
    CsiDeps, Engine, EngineDeps, EngineHandles, EngineSettings, EngineTask, EventSinks, GrantInputs,
    HostDeps, Interception, NodeInputs, ObjectInputs, PodSources, RunningHost, RuntimeDeps, UserIds,
};
use crate::grants::NumaSettings;
use crate::shutdown::ShutdownSettings;
use crate::shutdown::testing::FakeLogind;
use crate::source::SourceState;

/// The task whose findings a test states where it directs the engine.
const PROBES: &str = "probes";

/// A running daemon.
pub(super) struct Daemon {
    tasks: JoinSet<()>,
    cancel: CancellationToken,
    pub(super) handles: EngineHandles,
    pub(super) store: Store,
    pub(super) heartbeats: Heartbeats,
    pub(super) manifests: watch::Sender<SourceState>,
    /// What a test says in place of admission.
    pub(super) directed: Option<Directed>,
}

/// Where a test says what is admitted.
pub(super) struct Directed {
    pub(super) wanted: watch::Sender<DesiredPods>,
    pub(super) admitted: AdmittedPods,
}

impl Daemon {
    /// Starts a daemon on this node, in the order of the real one: what observes the runtime, what decides, what acts.
    pub(super) fn start(node: &mut Node) -> Self {
        let (pleg, pleg_handle) =
            Pleg::new(Arc::new(node.runtime.clone()), StdRng::from_rng(&mut node.chance));
        let random = StdRng::from_rng(&mut node.chance);
        let store = node.disk.copy();
        let manifests = watch::Sender::new(node.manifests.clone());
        let deps = deps(node, &store, pleg_handle, &manifests, random);
        let upkeep = deps.images.record_upkeep();
        let (mut engine, handles) = Engine::build(settings(node), deps);
        let directed = node.is_directed.then(|| {
            let (wanted, desired_pods) = watch::channel(node.wanted.clone());
            Directed { wanted, admitted: engine.directed_by(desired_pods, node.probes.clone()) }
        });
        let mut daemon = Self {
            tasks: JoinSet::new(),
            cancel: CancellationToken::new(),
            handles,
            store,
            heartbeats: Heartbeats::default(),
            manifests,
            directed,
        };
        let pleg = pleg.with_heartbeat(daemon.heartbeats.register("pleg"));
        daemon.tasks.spawn(pleg.run(daemon.cancel.clone()));
        if !node.is_directed {
            daemon.tasks.spawn(upkeep.run(daemon.cancel.clone()));
        }
        daemon.spawn(engine.first_tasks());
        daemon.spawn(engine.tasks(running_host(node)));
        daemon
    }

    fn spawn(&mut self, tasks: Vec<EngineTask>) {
        for task in tasks.into_iter().filter(|task| self.directed.is_none() || task.name != PROBES) {
            let heartbeat = match task.has_heartbeat {
                true => self.heartbeats.register(task.name),
                false => Heartbeat::default(),
            };
            self.tasks.spawn(task.run(heartbeat, self.cancel.clone()));
        }
    }

    /// Kills it.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// Stops it gracefully.
    pub(super) async fn end(self) {
        self.cancel.cancel();
        self.tasks.join_all().await;
    }
}

/// What the node offers.
fn allocatable(node: &Node) -> ResourceList {
    let mut all = resource_list([("cpu", "4"), ("memory", "8Gi"), ("ephemeral-storage", "100Gi")]);
    all.set(PODS, Quantity::count(node.surroundings.places as u64));
    all
}

fn settings(node: &Node) -> EngineSettings {
    let root = node.root().to_owned();
    EngineSettings {
        root_dir: root.clone(),
        logs: node.logs(),
        log_limits: node.surroundings.log_limits,
        image_gc: ImageGcPolicy {
            high_percent: 85,
            low_percent: 80,
            minimum_age: Duration::from_secs(120),
            maximum_age: None,
        },
        node: NodeView {
            name: host().node_name,
            resources: NodeResources::new(allocatable(node)),
            is_standalone: true,
            ..NodeView::default()
        },
        amounts: NodeAmounts { milli_cpu: 2_000, memory: 8 << 30, ephemeral_storage: 1 << 30 },
        allowed_unsafe_sysctls: Vec::new(),
        has_swap: false,
        sync_frequency: super::SYNC_FREQUENCY,
        max_concurrent_starts: node.bound.try_into().unwrap(),
        crash_loop_cap: super::CRASH_LOOP_CAP,
        status_gates: StatusGates { stop_signals: true, image_volumes: true },
        eviction: node.surroundings.eviction.clone(),
        // Some directed tests have pods with limits, and what these use is measured outside paused time.
        isolates_storage: !node.is_directed,
        volume_stats_period: None,
        user_ids: UserIds {
            per_pod: 65_536,
            max_pods: 110,
            subordinate: SubordinateIds { user: "no-such-user".to_owned(), program: "/none".into() },
        },
        shutdown: ShutdownSettings {
            periods: None,
            is_recorded: false,
            etc: root.join("etc"),
            root_dir: root,
        },
    }
}

fn deps(
    node: &Node,
    store: &Store,
    pleg: PlegHandle,
    manifests: &watch::Sender<SourceState>,
    random: StdRng,
) -> EngineDeps {
    let (runtime, clock) = (Arc::new(node.runtime.clone()), node.clock.of_new_process());
    let reported = node.events.clone();
    let pods: PodEvents = Arc::new(move |pod, container, event| {
        let container = container.map(|container| container.name.clone());
        reported.lock().push((pod.uid.clone(), container, event.reason.to_string()));
    });
    let (syncer, janitor) = (node.wrap.clone(), node.wrap_janitor.clone());
    let own_node = OwnNode { allocatable: allocatable(node), ..OwnNode::default() };
    EngineDeps {
        runtime: RuntimeDeps {
            service: runtime.clone(),
            images: runtime.clone(),
            status: node.status.subscribe(),
            pleg,
            quiet_period: QuietPeriod::default(),
        },
        images: Images::new(
            runtime,
            node.pull_limits,
            ImageVerification::ExceptPreloaded,
            RegistryCredentials::default(),
            store.clone(),
            clock.clone(),
        ),
        // It reads files on threads of its own, which would make runs differ.
        preload: None,
        objects: ObjectInputs {
            objects: Arc::new(node.objects.clone()),
            services: node.service_env.clone(),
            runtime_classes: node.runtime_classes.clone(),
        },
        csi: CsiDeps { volumes: CsiVolumes::none(), drivers: DriverObjects::none(), expansions: None },
        claims: node.claims.clone(),
        grants: GrantInputs { devices: devices(node), numa: NumaSettings::none() },
        sources: PodSources { manifests: manifests.subscribe(), api: node.surroundings.api.subscribe() },
        node: NodeInputs {
            own_node: watch::channel(own_node).1,
            pressure: node.surroundings.pressure.clone(),
            limits: watch::Sender::default(),
            object: watch::channel(node.surroundings.object.clone()).1,
            reader: None,
            addresses: node.addresses.1.clone(),
        },
        store: store.clone(),
        own: node.own.clone(),
        host: HostDeps {
            boot_id: node.boot_id(),
            mounts: Arc::new(KernelMounts { mountinfo: node.root().join("mountinfo") }),
            file_label: None,
            logind: Arc::new(FakeLogind::new(super::LOGIND_DELAY)),
            measure: node.surroundings.measure.clone(),
        },
        events: EventSinks { pods, node: node.surroundings.events.clone() },
        clock,
        random,
        metrics: node.metrics.clone(),
        probe_metrics: Metrics::default(),
        interception: Interception {
            syncer: Box::new(move |context| syncer(context)),
            janitor: Box::new(move |own| janitor(own)),
        },
    }
}

/// Those of a host whose plugins are all away.
fn devices(node: &Node) -> Devices {
    let settings = DevicesSettings {
        dir: node.root().join("device-plugins"),
        copy: node.root().join("devices"),
        numa_nodes: [0].into(),
        uptime: Duration::MAX,
    };
    Devices::new(settings, node.clock.clone()).0
}

fn running_host(node: &Node) -> RunningHost {
    RunningHost {
        settings: HostSettings {
            root_dir: node.root().to_owned(),
            pod_logs_dir: node.logs().pod_logs_dir,
            resolv_conf: None,
            node_ips: node.addresses.1.clone(),
            ..host()
        },
        cgroups: None,
        enforces_reservations: false,
        reserved_memory_percent: None,
        containerd: None,
        observer: node.surroundings.observer.clone(),
        reports: None,
    }
}
