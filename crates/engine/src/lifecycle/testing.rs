//! A node for the tests of this module: the engine and PLEG on an in-memory runtime with paused time. The daemon can be stopped and
//! rebuilt while the runtime and the host's directories remain. A test of lifecycles directs the engine: it says itself what is
//! admitted and what probes find. The simulation leaves both to the engine.

mod daemon;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use hostlet_base::node::NodeAddresses;
use hostlet_base::{CONFIG_SEEN_ANNOTATION, POD_UID_LABEL, PodRef, PodUid, WallClock};
use hostlet_dra::Claims;
use hostlet_image::PullLimits;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::daemon::{Daemon, Directed};
pub(super) use self::surroundings::Surroundings;
use super::Janitor;
use crate::admission::{AdmittedPods, AdoptedPod};
use crate::housekeeping::{DeadContainers, HostJanitor};
use crate::ownership::OwnPods;
use crate::source::SourceState;
use crate::worker::{PodSyncer, WorkerContext};

use hostlet_observe::log::LogLayout;
use hostlet_observe::status::timeline::TimelineEntry;
use hostlet_observe::status::{Activity, DirectoryEntry, PodStatusEntry, WorkerActivity};
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{FakeObjects, RuntimeClasses};
use hostlet_pod::{AdmittedPod, DesiredPods, PodKill, ProbeResults, pod_uid};
use hostlet_runtime::cri::fake::{FakeRuntime, RecordedCall, Restart};
use hostlet_runtime::cri::wire::{ContainerState, PodSandboxState};
use hostlet_runtime::cri::{Operation, RuntimeCondition, RuntimeStatus};
use hostlet_store::{Store, Table};
use hostlet_telemetry::{Heartbeats, Metrics};

/// Pause between two syncs of a pod that nothing else causes.
const SYNC_FREQUENCY: Duration = Duration::from_secs(60);

/// Longest pause of a crash loop.
const CRASH_LOOP_CAP: Duration = Duration::from_secs(300);

/// How many pods the engine admits.
pub(super) const PLACES: usize = 3;

/// How long logind would delay a shutdown.
const LOGIND_DELAY: Duration = Duration::from_secs(5);

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
type Wrap = Rc<dyn Fn(WorkerContext) -> Arc<dyn PodSyncer>>;
type WrapJanitor = Rc<dyn Fn(HostJanitor) -> Arc<dyn Janitor>>;

/// A host with a runtime and, if running, a daemon.
pub(super) struct Node {
    pub(super) runtime: FakeRuntime,
    /// ConfigMaps and Secrets.
    pub(super) objects: FakeObjects,
    /// The claims of pods, kept across daemons.
    pub(super) claims: Claims,
    /// The known Services, kept across daemons.
    pub(super) service_env: ServiceEnv,
    /// The known RuntimeClasses, kept across daemons.
    pub(super) runtime_classes: RuntimeClasses,
    /// Publishes the node's addresses.
    pub(super) addresses: (watch::Sender<Option<Arc<[IpAddr]>>>, NodeAddresses),
    /// What probes have found, where a test says that.
    pub(super) probes: ProbeResults,
    /// The host's, of which each daemon sees its own steady time.
    clock: WallClock,
    /// Number of boots of the host.
    boots: usize,
    root: TempDir,
    bound: usize,
    wrap: Wrap,
    wrap_janitor: WrapJanitor,
    /// Seed of each daemon's randomness.
    chance: StdRng,
    /// The store on disk, with which a daemon starts.
    disk: Store,
    /// When that was last written.
    written: Instant,
    /// The record of own pods, of which nothing is lost with a daemon: it waits for the disk before it makes anything.
    own: OwnPods,
    /// All events so far.
    events: Arc<Mutex<Vec<Reported>>>,
    /// The metrics of all daemons.
    pub(super) metrics: Metrics,
    /// The limits on pulls of the next daemon.
    pub(super) pull_limits: PullLimits,
    /// Whether the test says what is admitted and what probes find, rather than the engine.
    is_directed: bool,
    /// What the next daemon finds around it.
    pub(super) surroundings: Surroundings,
    wanted: DesiredPods,
    manifests: SourceState,
    /// The runtime's last status.
    pub(super) status: watch::Sender<Option<RuntimeStatus>>,
    daemon: Option<Daemon>,
}

impl Node {
    /// A node with a running daemon and no desired pods.
    pub(super) fn new() -> Self {
        Self::with(16, |context| Arc::new(context))
    }

    /// The same with a gate of `bound` and a wrapper around the worker's actions.
    pub(super) fn with(bound: usize, wrap: impl Fn(WorkerContext) -> Arc<dyn PodSyncer> + 'static) -> Self {
        Self::wrapped(1, bound, Rc::new(wrap), Rc::new(|janitor| Arc::new(janitor)), true)
    }

    /// The same with a wrapper around housekeeping.
    pub(super) fn with_janitor(wrap: impl Fn(HostJanitor) -> Arc<dyn Janitor> + 'static) -> Self {
        Self::wrapped(1, 16, Rc::new(|context| Arc::new(context)), Rc::new(wrap), true)
    }

    /// A node whose daemons do everything themselves, with a seed for their randomness.
    pub(super) fn seeded(
        seed: u64,
        bound: usize,
        wrap: impl Fn(WorkerContext) -> Arc<dyn PodSyncer> + 'static,
    ) -> Self {
        Self::wrapped(seed, bound, Rc::new(wrap), Rc::new(|janitor| Arc::new(janitor)), false)
    }

    fn wrapped(seed: u64, bound: usize, wrap: Wrap, wrap_janitor: WrapJanitor, is_directed: bool) -> Self {
        let base = "2026-01-01T00:00:00Z".parse().unwrap();
        let runtime = FakeRuntime::starting_at(base);
        runtime.add_image("img:latest");
        let clock = WallClock::of_tokio(base);
        let mut node = Self {
            runtime,
            objects: FakeObjects::new(clock.clone()),
            claims: Claims::none(),
            service_env: ServiceEnv::none(),
            runtime_classes: RuntimeClasses::none(),
            addresses: NodeAddresses::new(),
            probes: ProbeResults::default(),
            clock,
            boots: 1,
            root: directory(),
            bound,
            wrap,
            wrap_janitor,
            chance: StdRng::seed_from_u64(seed),
            disk: Store::default(),
            written: Instant::now(),
            own: OwnPods::default(),
            events: Arc::default(),
            metrics: Metrics::default(),
            pull_limits: PullLimits { serialize: false, max_parallel: None, qps: 0, burst: 0 },
            is_directed,
            surroundings: Surroundings::plenty(!is_directed),
            wanted: DesiredPods { ready: true, ..DesiredPods::default() },
            manifests: SourceState { ready: true, ..SourceState::default() },
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

    /// Has the next daemon record in this directory which pods are its own.
    pub(super) fn record_in(&mut self, dir: &Path) {
        self.own = OwnPods::new(dir.to_owned(), &self.disk);
    }

    /// Starts a new daemon.
    pub(super) fn boot(&mut self) {
        self.daemon = Some(Daemon::start(self));
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
        if let Some(daemon) = self.daemon.take() {
            daemon.stop().await;
        }
    }

    /// Stops the daemon gracefully.
    pub(super) async fn end(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.end().await;
        }
    }

    /// Makes the daemon store the pods that a test admits.
    pub(super) fn note(&self, source: &SourceState, wanted: &DesiredPods) {
        if let Some(directed) = self.directed() {
            directed.admitted.record(source, wanted, self.clock.now());
        }
    }

    fn directed(&self) -> Option<&Directed> {
        self.daemon.as_ref()?.directed.as_ref()
    }

    /// Sets what manifests define, of which the daemon admits what may run.
    pub(super) fn set_manifests(&mut self, manifests: SourceState) {
        self.manifests = manifests;
        if let Some(daemon) = &self.daemon {
            daemon.manifests.send_replace(self.manifests.clone());
        }
    }

    /// The pods that the daemon has admitted; none without a daemon.
    pub(super) fn admitted(&self) -> Vec<Arc<AdmittedPod>> {
        let daemon = self.daemon.as_ref();
        daemon.map(|daemon| daemon.handles.desired_pods.borrow().pods.clone()).unwrap_or_default()
    }

    /// Whether the daemon has rejected this pod.
    pub(super) fn is_rejected(&self, uid: &str) -> bool {
        self.rejected().contains(&PodUid::from(uid))
    }

    /// The pods that admission rejected; none without a daemon.
    pub(super) fn rejected(&self) -> BTreeSet<PodUid> {
        let entries = self.daemon.as_ref().map(|daemon| daemon.handles.pods.all()).unwrap_or_default();
        let rejected = entries.into_iter().filter(|(_, entry)| matches!(entry, DirectoryEntry::Rejected(_)));
        rejected.map(|(uid, _)| uid).collect()
    }

    /// Whether a pod is reported as ready.
    pub(super) fn is_ready(&self, uid: &str) -> bool {
        let conditions = self.status(uid).and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// What the daemon reports of the pods of others.
    pub(super) fn foreign(&self) -> Option<String> {
        self.daemon.as_ref()?.handles.problems.foreign.borrow().clone()
    }

    /// What removes the containers of terminated pods.
    pub(super) fn dead_containers(&self) -> DeadContainers {
        self.daemon.as_ref().unwrap().handles.dead_containers.clone()
    }

    /// Takes the events of pods since the last time: the pod and the reason of each.
    pub(super) fn take_events(&self) -> Vec<(PodUid, String)> {
        let events = std::mem::take(&mut *self.events.lock());
        events.into_iter().map(|(pod, _, reason)| (pod, reason)).collect()
    }

    /// The keys of the daemon's rows in this table.
    pub(super) fn rows(&self, table: Table) -> Vec<String> {
        self.daemon.as_ref().map(|daemon| daemon.store.keys(table)).unwrap_or_default()
    }

    /// Writes the daemon's store to disk.
    pub(super) fn sync_store(&mut self) {
        if let Some(daemon) = &self.daemon {
            self.disk = daemon.store.copy();
            self.written = Instant::now();
        }
    }

    /// When the daemon's store was last written to disk: a daemon that is killed loses what came later.
    pub(super) fn written(&self) -> Instant {
        self.written
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

    /// The ID of the host's boot.
    fn boot_id(&self) -> Arc<str> {
        format!("boot-{}", self.boots).into()
    }

    /// The host's clock.
    pub(super) fn clock(&self) -> WallClock {
        self.clock.clone()
    }

    /// The wall clock.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Boots the host while no daemon runs. Nothing that ran runs afterwards.
    pub(super) fn reboot(&mut self) {
        self.boots += 1;
        self.clock.reboot();
        let second = Duration::from_secs(1);
        self.runtime.restart(Restart { down: second, recovering: second, takes_pods_along: true });
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
        if let Some(directed) = self.directed() {
            directed.wanted.send_replace(self.wanted.clone());
        }
    }

    /// Adds a kill of this pod.
    pub(super) fn kill(&mut self, uid: &str, kill: PodKill) {
        self.wanted.kills.insert(uid.into(), kill);
        if let Some(directed) = self.directed() {
            directed.wanted.send_replace(self.wanted.clone());
        }
    }

    /// Requests that this container is restarted.
    pub(super) async fn restart(&self, uid: &str, container: &str) {
        if let Some(daemon) = &self.daemon {
            daemon.handles.restarts.request(&uid.into(), &[container.into()]).await;
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
        recorded.expect("nothing to wait for without a file").unwrap();
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
        self.daemon.as_ref().map(|daemon| daemon.handles.status_cache.all()).unwrap_or_default()
    }

    /// The activity of a pod's worker.
    pub(super) fn activity(&self, uid: &str) -> Option<Activity> {
        Some(self.doing(uid)?.activity)
    }

    /// What a pod's worker does.
    pub(super) fn doing(&self, uid: &str) -> Option<WorkerActivity> {
        self.daemon.as_ref()?.handles.activities.of(&uid.into())
    }

    /// The timeline of a pod; empty without a daemon.
    pub(super) fn timeline(&self, uid: &str) -> Vec<TimelineEntry> {
        let tracks = self.daemon.as_ref().map(|daemon| daemon.handles.timeline.tracks(|_| true));
        let its = tracks.into_iter().flatten().find(|track| track.uid == uid);
        its.map(|track| track.entries.into()).unwrap_or_default()
    }

    /// The reported status of a pod.
    pub(super) fn status(&self, uid: &str) -> Option<Arc<PodStatus>> {
        let reported = self.daemon.as_ref()?.handles.status_cache.all();
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
