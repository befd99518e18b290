//! The node over the year: who comes and goes, what grows, what must hold at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::{NodeEvent, Signal, Threshold};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold, LogLimits};
use hostlet_base::{ContainerId, PodUid};
use hostlet_pod::objects::ObjectKind;
use hostlet_pod::{ApiPod, ApiState, has_ended};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{OnTerm, Script};
use hostlet_store::Table;
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, advance, sleep};

use super::super::super::testing::{Node, Surroundings};
use super::disk::Disk;
use super::heap::allocated;
use super::kinds::{CONFIG, Kind, SCRATCH, image_size};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
/// How long idle time passes at once: two of them are almost five minutes.
const LEAP: Duration = Duration::from_secs(143);

/// How many pods the node admits.
const PLACES: usize = 30;
/// How many serve.
const WEBS: usize = 8;

/// The threshold of evictions, percent of the disk in use.
const EVICTION: u64 = 90;
/// How long the disk may be above the threshold of the image garbage collection: two of its passes.
const RELIEF: Duration = Duration::from_secs(11 * 60);

/// The event that says that unused images did not suffice to reach the low threshold.
const IS_SHORT: &str = "FreeDiskSpaceFailed";

/// Log limits: a byte of a file stands for many.
const LOG_LIMITS: LogLimits =
    LogLimits { max_size: 16 << 10, max_files: 3, workers: 1, interval: Duration::from_secs(10) };

/// A pod of the API server.
struct YearPod {
    kind: Kind,
    object: Arc<ApiPod>,
    image: String,
    /// When its owner removes it.
    until: Instant,
}

/// Bytes that the daemon and what surrounds it have allocated, and its metric series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    pub(super) heap: isize,
    pub(super) series: usize,
}

pub(super) struct Year {
    pub(super) node: Node,
    random: StdRng,
    disk: Disk,
    start: Instant,
    pods: BTreeMap<String, YearPod>,
    /// Number of pods so far.
    pub(super) created: usize,
    pub(super) evicted: usize,
    pub(super) removed_images: usize,
    is_away: bool,
    calls: usize,
    /// Whether a pod filled the disk at the last check. Its owner may have removed it since.
    had_hog: bool,
    node_events: Arc<Mutex<Vec<NodeEvent>>>,
}

impl Year {
    pub(super) async fn new(seed: u64) -> Self {
        let mut node = Node::seeded(seed, 8, |context| Arc::new(context));
        node.stop().await;
        node.runtime.set_image_sizes(image_size);
        let exits = |after| OnTerm::Exits { after, code: 0 };
        node.runtime.script("web", Script::forever().on_term(exits(SECOND)));
        node.runtime.script("hog", Script::forever().on_term(exits(SECOND)));
        node.runtime.script("job", Script::exits(20 * SECOND, 0));
        node.runtime.script("crash", Script::exits(SECOND, 1));
        let disk = Disk::of(&node);
        let (measured, node_events) = (disk.clone(), Arc::<Mutex<Vec<NodeEvent>>>::default());
        let reported = node_events.clone();
        let threshold = |signal| EvictionThreshold {
            signal,
            value: Threshold::Part(0.1),
            grace: Duration::ZERO,
            min_reclaim: None,
        };
        node.surroundings = Surroundings {
            places: PLACES,
            object: Some(Arc::default()),
            measure: Arc::new(move |_| Ok(measured.usage())),
            observer: Arc::new(disk.clone()),
            eviction: EvictionSettings {
                thresholds: [Signal::NodefsAvailable, Signal::ImagefsAvailable].map(threshold).to_vec(),
                pressure_transition: 5 * MINUTE,
                ..EvictionSettings::default()
            },
            log_limits: Some(LOG_LIMITS),
            events: Arc::new(move |event| reported.lock().push(event)),
            ..node.surroundings
        };
        node.boot();
        Self {
            node,
            random: StdRng::seed_from_u64(seed),
            disk,
            start: Instant::now(),
            pods: BTreeMap::new(),
            created: 0,
            evicted: 0,
            removed_images: 0,
            is_away: false,
            calls: 0,
            had_hog: false,
            node_events,
        }
    }

    /// Five minutes, in which up to `count` pods are created.
    pub(super) async fn step(&mut self, count: usize) {
        let text = self.day().to_string();
        self.node.objects.put(ObjectKind::ConfigMap, "default", CONFIG, &[("day", &text)]);
        let is_full = !self.node.surroundings.pressure.borrow().active().is_empty();
        let has_left = self.leave();
        let has_come = !self.is_away && !is_full && self.come(count.min(5));
        if has_left || has_come {
            self.publish();
            sleep(Duration::from_secs(12)).await;
        }
        self.grow();
        for _ in 0..2 {
            self.leap().await;
        }
        self.check();
    }

    /// Minutes in which nothing is due but what is due all the time.
    async fn leap(&self) {
        advance(LEAP).await;
        // Until all that was due is done.
        sleep(SECOND / 2).await;
    }

    /// The API server is away from now on, or back. What pods need of it is read from copies meanwhile.
    pub(super) fn set_away(&mut self, is_away: bool) {
        self.is_away = is_away;
        self.publish();
    }

    /// Boots the host. While the API server is away, the daemon knows its pods from the store.
    pub(super) async fn reboot(&mut self) {
        self.node.sync_store();
        self.node.stop().await;
        self.node.reboot();
        sleep(30 * SECOND).await;
        self.node.metrics = Metrics::default();
        self.node.surroundings.pressure.send_replace(Default::default());
        if self.is_away {
            self.node.surroundings.api.send_replace(ApiState::default());
        }
        self.node.boot();
        self.publish();
        sleep(MINUTE).await;
    }

    fn count(&self, kind: Kind) -> usize {
        self.pods.values().filter(|pod| pod.kind == kind).count()
    }

    /// Owners remove pods whose time is over, or that have ended.
    /// Whether any did.
    fn leave(&mut self) -> bool {
        if self.is_away {
            return false;
        }
        let now = Instant::now();
        let reported = self.node.reported().into_iter().filter(|reported| has_ended(&reported.status));
        let over: BTreeSet<String> =
            reported.map(|reported| reported.pod.reference.uid.to_string()).collect();
        let before = self.pods.len();
        self.pods.retain(|uid, pod| !over.contains(uid) && now < pod.until);
        self.pods.len() < before
    }

    fn day(&self) -> u64 {
        self.start.elapsed().as_secs() / DAY.as_secs()
    }

    /// Whether any pod was created.
    fn come(&mut self, count: usize) -> bool {
        let count = count.min(PLACES - self.pods.len());
        for _ in 0..count {
            let kind = match self.random.random_range(0..10_000) {
                0..3 if self.count(Kind::Hog) == 0 => Kind::Hog,
                3..20 if self.count(Kind::Crash) == 0 => Kind::Crash,
                _ if self.count(Kind::Web) < WEBS => Kind::Web,
                _ => Kind::Job,
            };
            self.add(kind);
        }
        count > 0
    }

    fn add(&mut self, kind: Kind) {
        self.created += 1;
        let uid = format!("{}-{}", kind.name(), self.created);
        let day = self.day();
        let app = self.random.random_range(0..6);
        let image = match kind {
            Kind::Web => format!("registry.local/web:{}", self.created),
            Kind::Job | Kind::Crash | Kind::Hog => format!("registry.local/app{app}:{day}"),
        };
        let longest = match kind {
            Kind::Web => 4 * DAY,
            Kind::Crash => DAY / 8,
            Kind::Job | Kind::Hog => 365 * DAY,
        };
        let until = Instant::now() + longest.mul_f64(0.5 + self.random.random::<f64>() / 2.0);
        let object = kind.pod(&uid, &image);
        self.pods.insert(uid, YearPod { kind, object, image, until });
    }

    /// The daemon sees the pods of the API server.
    fn publish(&self) {
        if self.is_away {
            return;
        }
        let pods = self.pods.iter().map(|(uid, pod)| (PodUid::from(uid.as_str()), pod.object.clone()));
        let state = ApiState { ready: true, pods: pods.collect(), ..ApiState::default() };
        self.node.surroundings.api.send_replace(state);
    }

    /// Logs, volumes and writable layers grow.
    fn grow(&mut self) {
        for container in self.node.containers().into_iter().filter(|container| container.runs) {
            let id = ContainerId::from(container.id.as_str());
            let Some(pod) = self.pods.get(&container.uid) else { continue };
            let status = self.node.runtime.wire_container_status(&id).unwrap_or_default();
            append(status.log_path.as_ref(), 2 << 10);
            self.node.runtime.set_written(&id, 100 << 20);
            let volume = format!("pods/{}/volumes/kubernetes.io~empty-dir/{SCRATCH}", container.uid);
            let file = self.node.root().join(volume).join("data");
            match pod.kind {
                Kind::Hog => append(&file, 256 << 10),
                Kind::Web | Kind::Job | Kind::Crash if !file.exists() => append(&file, 8 << 10),
                Kind::Web | Kind::Job | Kind::Crash => {}
            }
        }
        self.disk.changed();
    }

    fn check(&mut self) {
        let has_hog = self.count(Kind::Hog) > 0;
        let is_filled = std::mem::replace(&mut self.had_hog, has_hog) || has_hog;
        self.check_disk(is_filled);
        self.check_images();
        for (uid, reason) in self.node.take_events() {
            let is_hog = uid.as_str().starts_with(Kind::Hog.name());
            assert!(is_hog || reason != "Evicted", "{uid} was evicted");
            self.evicted += usize::from(reason == "Evicted");
        }
        assert!(self.node.rejected().is_empty(), "{:?} were rejected", self.node.rejected());
        for event in std::mem::take(&mut *self.node_events.lock()) {
            let is_known = ["EvictionThresholdMet", "ImageGCFailed"];
            // As upstream's, that event only says that the low threshold was not reached: the disk itself is judged above.
            let is_expected = event.reason == IS_SHORT || is_filled && is_known.contains(&&*event.reason);
            assert!(is_expected, "{event:?}");
        }
        self.node.runtime.forget_past();
    }

    /// Garbage collection relieves the disk before any pod has to end, unless a pod fills it.
    fn check_disk(&self, is_filled: bool) {
        self.disk.changed();
        let percent = self.disk.percent();
        if is_filled {
            self.disk.excuse();
        } else {
            assert!(percent < EVICTION, "the disk is full to {percent} %");
            let full_for = self.disk.full_for();
            assert!(full_for <= RELIEF, "{percent} % for {full_for:?}");
        }
    }

    /// No image is removed that a container has, or a pod names.
    fn check_images(&mut self) {
        let (calls, total) = self.node.runtime.calls_after(self.calls);
        self.calls = total;
        self.removed_images += calls.iter().filter(|call| call.operation == Operation::RemoveImage).count();
        for container in self.node.runtime.wire_containers() {
            let image = self.node.runtime.wire_image(&container.image_ref);
            assert!(image.is_some(), "the image of {container:?} was removed");
        }
        for (uid, pod) in self.pods.iter().filter(|(uid, _)| self.node.has(uid)) {
            assert!(self.node.runtime.wire_image(&pod.image).is_some(), "{} of {uid} was removed", pod.image);
        }
    }

    /// Every pod is removed, and after a while nothing is left of any.
    pub(super) async fn clear(&mut self) -> Footprint {
        self.set_away(false);
        self.pods.clear();
        self.publish();
        let deadline = Instant::now() + 20 * MINUTE;
        loop {
            sleep(10 * SECOND).await;
            let Some(left) = self.left() else { break };
            assert!(Instant::now() < deadline, "{left} is left");
        }
        for _ in 0..6 {
            self.leap().await;
        }
        self.check();
        // What was only recorded for this test does not count, nor what a writer of the store would have taken long ago.
        self.node.runtime.forget_past();
        self.node.sync_store();
        let text = self.node.metrics.encode();
        let is_of_pod = |line: &&str| ["web-", "job-", "crash-", "hog-"].iter().any(|pod| line.contains(pod));
        assert_eq!(text.lines().find(is_of_pod), None, "a series of a removed pod");
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        drop(text);
        Footprint { heap: allocated(), series }
    }

    fn left(&self) -> Option<String> {
        if let Some(container) = self.node.containers().first() {
            return Some(format!("{container:?}"));
        }
        if let Some(sandbox) = self.node.sandboxes().first() {
            return Some(format!("sandbox {sandbox:?}"));
        }
        if let Some(directory) = self.node.directories().first() {
            return Some(format!("directory {directory}"));
        }
        // Records of images that are there.
        let of_images = [Table::ImageUses, Table::PulledImages];
        let images = self.node.runtime.wire_images();
        let has_image = |key: &String| images.iter().any(|image| image.id == *key);
        let rows = Table::ALL
            .into_iter()
            .flat_map(|table| self.node.rows(table).into_iter().map(move |key| (table, key)));
        let left = rows.into_iter().find(|(table, key)| !of_images.contains(table) || !has_image(key));
        left.map(|(table, key)| format!("row {key} of {table:?}"))
    }
}

/// Makes a file longer without writing to it.
fn append(file: &std::path::Path, bytes: u64) {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    // A container that has just terminated has no directory any more.
    let Ok(mut opened) = opened else { return };
    let length = fs::metadata(file).map_or(0, |metadata| metadata.len());
    opened.set_len(length + bytes - 1).unwrap();
    opened.write_all(b"\n").unwrap();
}
