//! A node for the tests of this room: real lifecycles, workers and PLEG on an in-memory runtime with paused time. The daemon can be
//! stopped and rebuilt while the runtime and the host's directories remain.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Janitor, PodTable};
use crate::admission::{AdmittedPods, AdoptedPod};
use crate::cri_config::testing::host;
use crate::cri_config::{HostSettings, SubordinateIds, UserNamespaces};
use crate::gate::{StartGate, StopGate};
use crate::housekeeping::{HostJanitor, ProtectedMemory};
use crate::ownership::OwnPods;
use crate::source::SourceState;
use crate::worker::{
    EnvAccess, HostAccess, PodSyncer, ReportSinks, RestartRequests, RuntimeAccess, WorkerContext,
    WorkerMetrics,
};
use hostlet_base::node::NodeAddresses;
use hostlet_base::settings::ImageVerification;
use hostlet_base::{CONFIG_SEEN_ANNOTATION, POD_UID_LABEL, PodRef, PodUid, QuietPeriod, WallClock};
use hostlet_host::KernelMounts;
use hostlet_image::credentials::RegistryCredentials;
use hostlet_image::{Images, PullLimits};
use hostlet_net::http::HttpClient;
use hostlet_observe::log::LogLayout;
use hostlet_observe::pleg::Pleg;
use hostlet_observe::status::timeline::{Entry, Timeline};
use hostlet_observe::status::{
    Activity, PodActivities, PodStatusDeps, PodStatusEntry, PodStatusTask, StatusCache, StatusGates,
    StatusHandle, WorkerActivity,
};
use hostlet_pod::AdmittedPod;
use hostlet_pod::DesiredPods;
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{FakeObjects, RuntimeClasses};
use hostlet_pod::pod_uid;
use hostlet_pod::{PodEvents, PodKill, ProbeResults};
use hostlet_runtime::cri::fake::{FakeRuntime, RecordedCall};
use hostlet_runtime::cri::wire::{ContainerState, PodSandboxState};
use hostlet_runtime::cri::{Operation, RuntimeCondition, RuntimeStatus};
use hostlet_store::Store;
use hostlet_telemetry::{Heartbeats, Metrics};
use hostlet_volume::{NodeAmounts, VolumeSettings, Volumes};

/// Poll interval of tests.
const LOOK: Duration = Duration::from_millis(10);

/// Calls with an effect.
const CHANGES: [Operation; 7] = [
    Operation::RunSandbox,
    Operation::StopSandbox,
    Operation::RemoveSandbox,
    Operation::CreateContainer,
    Operation::StartContainer,
    Operation::StopContainer,
    Operation::RemoveContainer,
];

/// Calls that pass the gate.
pub(super) const STARTS: [Operation; 3] =
    [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer];

/// A container in the runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) runs: bool,
    pub(super) id: String,
}

/// The pod, the container and the reason of an event.
type Reported = (PodUid, Option<String>, String);
type Wrap = Box<dyn Fn(WorkerContext) -> Arc<dyn PodSyncer>>;
type WrapJanitor = Box<dyn Fn(HostJanitor) -> Arc<dyn Janitor>>;

/// A host with a runtime and, if running, a daemon.
pub(super) struct Node {
    pub(super) runtime: FakeRuntime,
    /// ConfigMaps and Secrets.
    pub(super) objects: FakeObjects,
    /// The known Services, kept across daemons.
    pub(super) service_env: ServiceEnv,
    /// The known RuntimeClasses, kept across daemons.
    pub(super) runtime_classes: RuntimeClasses,
    /// Publishes the node's addresses.
    pub(super) addresses: (watch::Sender<Option<Arc<[IpAddr]>>>, NodeAddresses),
    /// What probes have found.
    pub(super) probes: ProbeResults,
    clock: WallClock,
    root: TempDir,
    bound: usize,
    wrap: Wrap,
    wrap_janitor: WrapJanitor,
    /// Seed of each daemon's randomness.
    chance: StdRng,
    /// The store on disk, with which a daemon starts.
    disk: Store,
    /// The record of own pods, of which nothing is lost with a daemon: it waits for the disk before it makes anything.
    own: OwnPods,
    /// All events so far.
    events: Arc<Mutex<Vec<Reported>>>,
    /// The metrics of all daemons.
    pub(super) metrics: Metrics,
    /// The limits on pulls of the next daemon.
    pub(super) pull_limits: PullLimits,
    wanted: DesiredPods,
    /// What the daemon reports of the pods of others.
    pub(super) foreign: watch::Sender<Option<String>>,
    /// The runtime's last status.
    pub(super) status: watch::Sender<Option<RuntimeStatus>>,
    daemon: Option<Daemon>,
}

struct Daemon {
    tasks: JoinSet<()>,
    cancel: CancellationToken,
    wanted: watch::Sender<DesiredPods>,
    status_cache: StatusCache,
    activities: PodActivities,
    timeline: Timeline,
    store: Store,
    admitted: AdmittedPods,
    restarts: RestartRequests,
    heartbeats: Heartbeats,
}

impl Node {
    /// A node with a running daemon and no desired pods.
    pub(super) fn new() -> Self {
        Self::with(16, |context| Arc::new(context))
    }

    /// The same with a gate of `bound` and a wrapper around the worker's actions.
    pub(super) fn with(bound: usize, wrap: impl Fn(WorkerContext) -> Arc<dyn PodSyncer> + 'static) -> Self {
        Self::seeded(1, bound, wrap)
    }

    /// The same with a wrapper around housekeeping.
    pub(super) fn with_janitor(wrap: impl Fn(HostJanitor) -> Arc<dyn Janitor> + 'static) -> Self {
        Self::wrapped(1, 16, Box::new(|context| Arc::new(context)), Box::new(wrap))
    }

    /// The same with a seed for its daemons' randomness.
    pub(super) fn seeded(
        seed: u64,
        bound: usize,
        wrap: impl Fn(WorkerContext) -> Arc<dyn PodSyncer> + 'static,
    ) -> Self {
        Self::wrapped(seed, bound, Box::new(wrap), Box::new(|janitor| Arc::new(janitor)))
    }

    fn wrapped(seed: u64, bound: usize, wrap: Wrap, wrap_janitor: WrapJanitor) -> Self {
        let base = "2026-01-01T00:00:00Z".parse().unwrap();
        let runtime = FakeRuntime::starting_at(base);
        runtime.add_image("img:latest");
        let clock = WallClock::of_tokio(base);
        let mut node = Self {
            runtime,
            objects: FakeObjects::new(clock.clone()),
            service_env: ServiceEnv::none(),
            runtime_classes: RuntimeClasses::none(),
            addresses: NodeAddresses::new(),
            probes: ProbeResults::default(),
            clock,
            root: directory(),
            bound,
            wrap,
            wrap_janitor,
            chance: StdRng::seed_from_u64(seed),
            disk: Store::default(),
            own: OwnPods::default(),
            events: Arc::default(),
            metrics: Metrics::default(),
            pull_limits: PullLimits { serialize: false, max_parallel: None, qps: 0, burst: 0 },
            wanted: DesiredPods { ready: true, ..DesiredPods::default() },
            foreign: watch::Sender::default(),
            status: watch::Sender::new(Some(ready())),
            daemon: None,
        };
        std::fs::write(node.root.path().join("mountinfo"), "").unwrap();
        node.logs().create_roots().unwrap();
        node.readdress(Some("192.0.2.1"));
        node.boot();
        node
    }

    fn logs(&self) -> LogLayout {
        let root = self.root.path();
        LogLayout { pod_logs_dir: root.join("pod-logs"), containers_dir: root.join("container-logs") }
    }

    /// Starts a new daemon.
    pub(super) fn boot(&mut self) {
        let runtime = Arc::new(self.runtime.clone());
        let reported = self.events.clone();
        let events: PodEvents = Arc::new(move |pod, container, event| {
            let container = container.map(|container| container.name.clone());
            reported.lock().push((pod.uid.clone(), container, event.reason.to_string()));
        });
        let (pleg, pleg_handle) = Pleg::new(runtime.clone(), StdRng::from_rng(&mut self.chance));
        let (status_cache, timeline) = (StatusCache::default(), Timeline::default());
        let activities = PodActivities::new(timeline.clone());
        let store = self.disk.copy();
        let (admitted, adopted) = AdmittedPods::new(store.clone());
        let root = self.root.path();
        let mounts = Arc::new(KernelMounts { mountinfo: root.join("mountinfo") });
        let (volume_task, volumes) = Volumes::new(VolumeSettings {
            root: root.to_owned(),
            node: NodeAmounts { milli_cpu: 2_000, memory: 8 << 30, ephemeral_storage: 1 << 30 },
            labels: Arc::new(BTreeMap::new),
            mounts: mounts.clone(),
            objects: Arc::new(self.objects.clone()),
            clock: self.clock.clone(),
        });
        let statuses = StatusHandle::default();
        let sources = PodStatusDeps {
            handle: statuses.clone(),
            probes: self.probes.clone(),
            observed: pleg_handle.cache().clone(),
            addresses: self.addresses.1.clone(),
            runtime_name: host().runtime_name,
            timeline: timeline.clone(),
            gates: StatusGates { stop_signals: true, image_volumes: true },
            clock: self.clock.clone(),
        };
        let status_task = PodStatusTask::new(sources, status_cache.clone());
        let settings = HostSettings {
            root_dir: root.to_owned(),
            pod_logs_dir: self.logs().pod_logs_dir,
            resolv_conf: None,
            node_ips: self.addresses.1.clone(),
            ..host()
        };
        let ids = SubordinateIds { user: "no-such-user".to_owned(), program: "/none".into() };
        let user_namespaces = Arc::new(UserNamespaces::new(root.to_owned(), 65_536, 110, ids));
        let restarts = RestartRequests::new(store.clone());
        let worker_metrics = WorkerMetrics::default();
        worker_metrics.register(&self.metrics);
        let context = WorkerContext {
            runtime: RuntimeAccess {
                service: runtime.clone(),
                status: self.status.subscribe(),
                classes: self.runtime_classes.clone(),
                images: Images::new(
                    runtime,
                    self.pull_limits,
                    ImageVerification::ExceptPreloaded,
                    RegistryCredentials::default(),
                    store.clone(),
                    self.clock.clone(),
                ),
                pleg: pleg_handle.clone(),
                starts: StartGate::new(self.bound),
                stops: StopGate::default(),
                quiet_period: QuietPeriod::default(),
            },
            host: HostAccess {
                settings: Arc::new(settings),
                cgroups: None,
                user_namespaces: user_namespaces.clone(),
                logs: self.logs(),
                volumes: volumes.clone(),
                mounts: mounts.clone(),
            },
            env: EnvAccess { objects: Arc::new(self.objects.clone()), services: self.service_env.clone() },
            reports: ReportSinks {
                status_cache: status_cache.clone(),
                activities: activities.clone(),
                timeline: timeline.clone(),
                statuses: statuses.clone(),
                events: events.clone(),
                clock: self.clock.clone(),
            },
            store: store.clone(),
            own: self.own.clone(),
            restarts: restarts.clone(),
            probes: self.probes.clone(),
            hook_client: HttpClient::default(),
            metrics: worker_metrics,
            crash_loop_cap: Duration::from_secs(300),
        };
        let janitor = HostJanitor {
            quiet_period: QuietPeriod::default(),
            root_dir: root.to_owned(),
            mounts,
            volumes,
            logs: self.logs(),
            cgroups: None,
            memory_qos: None,
            protected_memory: ProtectedMemory::default(),
            pods_limit: None,
            user_namespaces,
            own: self.own.clone(),
            foreign: self.foreign.clone(),
            admitted: admitted.clone(),
            status_cache: status_cache.clone(),
            activities: activities.clone(),
            timeline: timeline.clone(),
        };
        let (wanted, wanted_view) = watch::channel(self.wanted.clone());
        let table = PodTable::new(
            wanted_view,
            pleg_handle,
            (self.wrap)(context),
            (self.wrap_janitor)(janitor),
            Duration::from_secs(60),
            StdRng::from_rng(&mut self.chance),
        );
        let table = table
            .with_statuses(statuses)
            .at(self.addresses.1.clone())
            .reporting(events)
            .after(adopted.into_iter().map(|adopted| AdmittedPod::new(adopted.pod)));
        table.register(&self.metrics, &status_cache);
        status_task.register(&self.metrics);
        let heartbeats = Heartbeats::default();
        let table = table.with_heartbeat(heartbeats.register("pods"));
        let pleg = pleg.with_heartbeat(heartbeats.register("pleg"));
        let status_task = status_task.with_heartbeat(heartbeats.register("statuses"));
        let mut tasks = JoinSet::new();
        let cancel = CancellationToken::new();
        tasks.spawn(volume_task.run(cancel.clone()));
        tasks.spawn(pleg.run(cancel.clone()));
        tasks.spawn(status_task.run(cancel.clone()));
        tasks.spawn(table.run(cancel.clone()));
        self.daemon = Some(Daemon {
            tasks,
            cancel,
            wanted,
            status_cache,
            activities,
            timeline,
            store,
            admitted,
            restarts,
            heartbeats,
        });
    }

    /// Sets or removes the node's address.
    pub(super) fn readdress(&self, ip: Option<&str>) {
        let ips: Arc<[IpAddr]> = ip.into_iter().map(|ip| ip.parse().unwrap()).collect();
        self.addresses.0.send_replace(Some(ips));
    }

    /// The heartbeats of the daemon's loops; none without a daemon.
    pub(super) fn heartbeats(&self) -> Heartbeats {
        self.daemon.as_ref().map(|daemon| daemon.heartbeats.clone()).unwrap_or_default()
    }

    /// Kills the daemon.
    pub(super) async fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.tasks.shutdown().await;
        }
    }

    /// Stops the daemon gracefully.
    pub(super) async fn end(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.cancel.cancel();
            daemon.tasks.join_all().await;
        }
    }

    /// Makes the daemon store the pods it admits.
    pub(super) fn note(&self, source: &SourceState, wanted: &DesiredPods) {
        if let Some(daemon) = &self.daemon {
            daemon.admitted.record(source, wanted, self.clock.now());
        }
    }

    /// Writes the daemon's store to disk.
    pub(super) fn sync_store(&mut self) {
        if let Some(daemon) = &self.daemon {
            self.disk = daemon.store.copy();
        }
    }

    /// The stored pods that the next daemon will find.
    pub(super) fn stored_pods(&self) -> Vec<AdoptedPod> {
        AdmittedPods::new(self.disk.copy()).1
    }

    /// Makes the runtime's status unknown.
    pub(super) fn clear_runtime_status(&self) {
        self.status.send_replace(None);
    }

    /// Makes runtime and network ready.
    pub(super) fn set_runtime_ready(&self) {
        self.status.send_replace(Some(ready()));
    }

    /// Whether the daemon runs.
    pub(super) fn is_up(&self) -> bool {
        self.daemon.is_some()
    }

    /// The host's directory.
    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The wall clock.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the host's clock forward or back by this many seconds.
    pub(super) fn set_clock(&self, seconds: i64) {
        self.clock.set(seconds);
        self.runtime.set_clock(seconds);
    }

    /// Sets the desired pods.
    pub(super) fn want(&mut self, pods: impl IntoIterator<Item = Arc<AdmittedPod>>) {
        self.set_desired(true, pods);
    }

    /// Sets the desired pods, and whether all sources are ready.
    pub(super) fn set_desired(&mut self, ready: bool, pods: impl IntoIterator<Item = Arc<AdmittedPod>>) {
        self.wanted = DesiredPods { ready, pods: pods.into_iter().collect(), ..DesiredPods::default() };
        if let Some(daemon) = &self.daemon {
            daemon.wanted.send_replace(self.wanted.clone());
        }
    }

    /// Adds a kill of this pod.
    pub(super) fn kill(&mut self, uid: &str, kill: PodKill) {
        self.wanted.kills.insert(uid.into(), kill);
        if let Some(daemon) = &self.daemon {
            daemon.wanted.send_replace(self.wanted.clone());
        }
    }

    /// Requests that this container is restarted.
    pub(super) async fn restart(&self, uid: &str, container: &str) {
        if let Some(daemon) = &self.daemon {
            daemon.restarts.request(&uid.into(), &[container.into()]).await;
        }
    }

    /// Waits until `look` is true; fails after `within` with the node's state.
    pub(super) async fn until(&self, what: &str, within: Duration, look: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + within;
        while !look(self) {
            assert!(Instant::now() < deadline, "not in {within:?}: {what}\n{}", self.picture());
            sleep(LOOK).await;
        }
    }

    /// The runtime's state as text.
    pub(super) fn picture(&self) -> String {
        let sandboxes = self.runtime.wire_sandboxes();
        let sandboxes: Vec<_> = sandboxes
            .iter()
            .map(|s| (&s.metadata, s.state, self.runtime.wire_sandbox_status(&s.id.as_str().into())))
            .collect();
        let calls: Vec<_> =
            self.runtime.calls().into_iter().filter(|c| CHANGES.contains(&c.operation)).collect();
        let last = &calls[calls.len().saturating_sub(30)..];
        format!("{:#?}\n{sandboxes:?}\nlast calls: {last:#?}", self.containers())
    }

    /// All containers in the runtime, oldest attempt first.
    pub(super) fn containers(&self) -> Vec<Seen> {
        let seen = self.runtime.wire_containers().into_iter().map(|container| {
            let metadata = container.metadata.unwrap_or_default();
            Seen {
                uid: container.labels.get(POD_UID_LABEL).cloned().unwrap_or_default(),
                name: metadata.name,
                attempt: metadata.attempt,
                runs: container.state == ContainerState::ContainerRunning as i32,
                id: container.id,
            }
        });
        let mut seen: Vec<Seen> = seen.collect();
        seen.sort();
        seen
    }

    /// Name and attempt of a pod's running containers.
    pub(super) fn running(&self, uid: &str) -> Vec<(String, u32)> {
        let ours = self.containers().into_iter().filter(|c| c.uid == uid && c.runs);
        ours.map(|c| (c.name, c.attempt)).collect()
    }

    /// All sandboxes: UID, attempt, and whether ready.
    pub(super) fn sandboxes(&self) -> Vec<(String, u32, bool)> {
        let sandboxes = self.runtime.wire_sandboxes().into_iter().map(|sandbox| {
            let metadata = sandbox.metadata.unwrap_or_default();
            (metadata.uid, metadata.attempt, sandbox.state == PodSandboxState::SandboxReady as i32)
        });
        let mut sandboxes: Vec<_> = sandboxes.collect();
        sandboxes.sort();
        sandboxes
    }

    /// Whether the runtime has a sandbox or container of a pod.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.containers().iter().any(|c| c.uid == uid) || self.sandboxes().iter().any(|(u, ..)| u == uid)
    }

    /// All directories of pods on the host.
    pub(super) fn directories(&self) -> Vec<String> {
        let names = |path: PathBuf| -> Vec<String> {
            let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
        };
        let mut all = names(self.root.path().join("pods"));
        all.extend(names(self.logs().pod_logs_dir));
        all.extend(names(self.logs().containers_dir));
        all.sort();
        all
    }

    /// Creates the directory of a pod of an earlier daemon, which the next one knows.
    pub(super) fn leave_directory(&self, uid: &str) {
        let recorded = self.own.record(&PodRef::new("default", "left", uid)).now_or_never();
        recorded.expect("nothing to wait for without a file");
        self.leave_foreign_directory(uid);
    }

    /// Creates the directory of another kubelet's pod.
    pub(super) fn leave_foreign_directory(&self, uid: &str) {
        std::fs::create_dir_all(self.root.path().join("pods").join(uid)).unwrap();
    }

    /// The calls for a pod with an effect, oldest first.
    pub(super) fn changes_of(&self, uid: &str) -> Vec<RecordedCall> {
        let uid = PodUid::from(uid);
        let calls = self.runtime.calls().into_iter();
        calls.filter(|c| CHANGES.contains(&c.operation) && c.pod.as_ref() == Some(&uid)).collect()
    }

    /// The calls of one kind for a pod, oldest first.
    pub(super) fn calls_of(&self, uid: &str, operation: Operation) -> Vec<RecordedCall> {
        self.changes_of(uid).into_iter().filter(|c| c.operation == operation).collect()
    }

    /// All reported pods; none without a daemon.
    pub(super) fn reported(&self) -> Vec<PodStatusEntry> {
        self.daemon.as_ref().map(|daemon| daemon.status_cache.all()).unwrap_or_default()
    }

    /// The activity of a pod's worker.
    pub(super) fn activity(&self, uid: &str) -> Option<Activity> {
        Some(self.doing(uid)?.activity)
    }

    /// What a pod's worker does.
    pub(super) fn doing(&self, uid: &str) -> Option<WorkerActivity> {
        self.daemon.as_ref()?.activities.of(&uid.into())
    }

    /// The timeline of a pod; empty without a daemon.
    pub(super) fn timeline(&self, uid: &str) -> Vec<Entry> {
        let tracks = self.daemon.as_ref().map(|daemon| daemon.timeline.tracks(|_| true));
        let its = tracks.into_iter().flatten().find(|track| track.uid == uid);
        its.map(|track| track.entries.into()).unwrap_or_default()
    }

    /// The reported status of a pod.
    pub(super) fn status(&self, uid: &str) -> Option<Arc<PodStatus>> {
        let reported = self.daemon.as_ref()?.status_cache.all();
        reported
            .into_iter()
            .find(|reported| pod_uid(&reported.pod).as_str() == uid)
            .map(|reported| reported.status)
    }

    /// Number of events with this reason for a pod.
    pub(super) fn events_of(&self, uid: &str, reason: &str) -> usize {
        let events = self.events.lock();
        events.iter().filter(|(pod, _, of)| pod.as_str() == uid && *of == reason).count()
    }

    /// Reasons of all events of a container, oldest first.
    pub(super) fn events_about(&self, uid: &str, container: &str) -> Vec<String> {
        let events = self.events.lock();
        let its =
            events.iter().filter(|(pod, of, _)| pod.as_str() == uid && of.as_deref() == Some(container));
        its.map(|(_, _, reason)| reason.clone()).collect()
    }

    /// The reported phase of a pod.
    pub(super) fn phase(&self, uid: &str) -> Option<String> {
        self.status(uid)?.phase.clone()
    }

    /// The reported exit codes of a pod's terminated containers, by name.
    pub(super) fn exit_codes(&self, uid: &str) -> BTreeMap<String, i32> {
        let statuses = self.status(uid).and_then(|s| s.container_statuses.clone()).unwrap_or_default();
        let ended = statuses.into_iter().filter_map(|s| Some((s.name, s.state?.terminated?.exit_code)));
        ended.collect()
    }
}

/// The status of a ready runtime.
fn ready() -> RuntimeStatus {
    let ready = RuntimeCondition { status: true, ..RuntimeCondition::default() };
    RuntimeStatus { runtime: ready.clone(), network: ready, ..RuntimeStatus::default() }
}

/// A directory on tmpfs if possible, because a simulation creates and removes thousands of files.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A static pod; `seconds` is when it was first seen, which determines its rank at the gate.
pub(super) fn pod(name: &str, uid: &str, containers: &[&str]) -> Arc<AdmittedPod> {
    pod_with(name, uid, "Always", containers)
}

/// The same with a restart policy.
pub(super) fn pod_with(name: &str, uid: &str, policy: &str, containers: &[&str]) -> Arc<AdmittedPod> {
    AdmittedPod::new(hostlet_pod::testing::pod(name, uid, policy, containers))
}

/// The pod, first seen this many seconds after the epoch.
pub(super) fn seen_at(pod: &Pod, second: i64) -> Arc<AdmittedPod> {
    let mut pod = pod.clone();
    let seen = Timestamp::from_second(second).unwrap().to_string();
    pod.metadata.annotations.get_or_insert_default().insert(CONFIG_SEEN_ANNOTATION.to_owned(), seen);
    AdmittedPod::new(pod)
}
