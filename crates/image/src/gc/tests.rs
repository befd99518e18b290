//! The task on the in-memory runtime, in paused time.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::NodeEvent;
use hostlet_base::settings::ImageGcPolicy;
use hostlet_base::{
    CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, PodRef, SandboxId,
    WallClock,
};
use hostlet_host::FilesystemUsage;
use hostlet_runtime::cri::fake::{FakeRuntime, Fault, Rule};
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, Mount, PodSandboxConfig, PodSandboxMetadata,
};
use hostlet_runtime::cri::{Operation, RuntimeService};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;

mod reports;

const GIB: u64 = 1 << 30;
const MINUTE: Duration = Duration::from_secs(60);
const POLICY: ImageGcPolicy = ImageGcPolicy {
    high_percent: 85,
    low_percent: 80,
    minimum_age: Duration::from_secs(120),
    maximum_age: None,
};

/// Where the disk for images is mounted. Others are empty.
const IMAGES: &str = "/images";

/// A node with a disk of 100 GiB for images.
struct Bench {
    runtime: FakeRuntime,
    /// What other files take, bytes, and the size of the disk.
    disk: Arc<Mutex<(u64, u64)>>,
    pods: Arc<Mutex<Vec<PodImages>>>,
    archives: watch::Sender<Option<BTreeSet<String>>>,
    events: Arc<Mutex<Vec<NodeEvent>>>,
    metrics: Metrics,
    store: Store,
    clock: WallClock,
    gc: ImageGc,
    tasks: JoinSet<()>,
    cancel: CancellationToken,
}

impl Bench {
    /// Not started.
    fn new() -> Self {
        let cancel = CancellationToken::new();
        let (_, gc) = watch::channel(None);
        let runtime = FakeRuntime::new();
        runtime.set_image_place(IMAGES);
        Self {
            runtime,
            disk: Arc::new(Mutex::new((0, 100 * GIB))),
            pods: Arc::default(),
            archives: watch::Sender::new(Some(BTreeSet::new())),
            events: Arc::default(),
            metrics: Metrics::default(),
            store: Store::default(),
            clock: WallClock::of_tokio(Timestamp::UNIX_EPOCH),
            gc: ImageGc::new(gc),
            tasks: JoinSet::new(),
            cancel,
        }
    }

    /// A pod's label set.
    fn labels(pod: &str) -> HashMap<String, String> {
        [
            (POD_NAMESPACE_LABEL, "ns"),
            (POD_NAME_LABEL, pod),
            (POD_UID_LABEL, pod),
            (CONTAINER_NAME_LABEL, "c"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    fn image(&self, name: &str, gib: u64) -> String {
        let id = self.runtime.add_image(name);
        self.runtime.set_image_size(name, gib * GIB);
        id
    }

    async fn sandbox(&self, pod: &str) -> SandboxId {
        let metadata = PodSandboxMetadata {
            name: pod.to_owned(),
            namespace: "ns".to_owned(),
            uid: pod.to_owned(),
            ..PodSandboxMetadata::default()
        };
        let config = PodSandboxConfig {
            metadata: Some(metadata),
            labels: Self::labels(pod),
            ..PodSandboxConfig::default()
        };
        self.runtime.run_sandbox(config, "").await.unwrap()
    }

    /// A container with these labels and image mounts.
    async fn container(
        &self,
        pod: &str,
        image: &str,
        labels: HashMap<String, String>,
        mounted: Option<&str>,
    ) -> ContainerId {
        let sandbox = self.sandbox(pod).await;
        let spec = |image: &str| ImageSpec { image: image.to_owned(), ..ImageSpec::default() };
        let mount = |image: &str| Mount {
            container_path: "/model".to_owned(),
            image: Some(spec(image)),
            ..Mount::default()
        };
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
            image: Some(spec(image)),
            labels,
            mounts: mounted.map(mount).into_iter().collect(),
            ..ContainerConfig::default()
        };
        self.runtime.create_container(&sandbox, config, PodSandboxConfig::default()).await.unwrap()
    }

    /// A pod that names these images.
    fn names(&self, pod: &str, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let pod = PodRef::new("ns", pod, pod);
        self.pods.lock().push(PodImages { pod, names, has_image_volumes: false });
    }

    fn start(&mut self, policy: ImageGcPolicy) {
        let (runtime, disk, pods) = (self.runtime.clone(), self.disk.clone(), self.pods.clone());
        let events = self.events.clone();
        let deps = ImageGcDeps {
            runtime: Arc::new(runtime.clone()),
            images: Arc::new(runtime.clone()),
            pods: Arc::new(move || pods.lock().clone()),
            archives: self.archives.subscribe(),
            measure: Arc::new(move |path| {
                let (other, capacity) = *disk.lock();
                if path != Path::new(IMAGES) {
                    return Ok(FilesystemUsage {
                        capacity,
                        available: capacity,
                        ..FilesystemUsage::default()
                    });
                }
                let images: u64 = runtime.wire_images().iter().map(|image| image.size).sum();
                let available = capacity.saturating_sub(other + images);
                Ok(FilesystemUsage { capacity, available, ..FilesystemUsage::default() })
            }),
            store: self.store.clone(),
            events: Arc::new(move |event| events.lock().push(event)),
            clock: self.clock.clone(),
        };
        let (task, gc) = ImageGcTask::new(policy, deps, &self.metrics);
        self.gc = gc;
        self.tasks.spawn(task.run(self.cancel.clone()));
    }

    async fn after(&self, time: Duration) {
        sleep(time).await;
    }

    /// The first tags of the images.
    fn present(&self) -> Vec<String> {
        let images = self.runtime.wire_images().into_iter();
        images.map(|image| image.repo_tags[0].trim_start_matches("r.example/").to_owned()).collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.events.lock().iter().map(|event| event.reason.to_string()).collect()
    }

    fn removed(&self, reason: &str) -> Option<String> {
        let text = self.metrics.encode();
        let name = format!("kubelet_image_garbage_collected_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned))
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_freed_of_the_least_recently_used_images_and_of_no_more() {
    let mut bench = Bench::new();
    for name in ["own", "foreign", "mounted", "named", "pause", "pinned", "archive", "early", "late", "never"]
    {
        bench.image(&format!("r.example/{name}:1"), 2);
    }
    bench.runtime.pin_image("r.example/pinned:1");
    bench.runtime.set_sandbox_image("r.example/pause:1");
    bench.archives.send_replace(Some(["r.example/archive:1".to_owned()].into()));
    bench.container("p", "r.example/own:1", Bench::labels("p"), None).await;
    bench.container("f", "r.example/foreign:1", HashMap::new(), None).await;
    bench.container("m", "r.example/own:1", Bench::labels("m"), Some("r.example/mounted:1")).await;
    bench.names("n", &["r.example/named:1"]);
    let early = bench.container("e", "r.example/early:1", Bench::labels("e"), None).await;
    let late = bench.container("l", "r.example/late:1", Bench::labels("l"), None).await;
    bench.start(POLICY);
    bench.after(MINUTE).await;
    bench.runtime.remove_behind_back(early.as_str());
    bench.after(5 * MINUTE).await;
    bench.runtime.remove_behind_back(late.as_str());
    bench.after(5 * MINUTE).await;
    assert_eq!(bench.present().len(), 10, "there is enough space");

    // 86 GiB of 100 are used: 6 have to go, those never used first.
    bench.disk.lock().0 = 66 * GIB;
    bench.after(5 * MINUTE).await;
    let kept =
        ["archive", "foreign", "mounted", "named", "own", "pause", "pinned"].map(|name| format!("{name}:1"));
    assert_eq!(bench.present(), kept);
    let removed = bench.runtime.calls_of(Operation::RemoveImage);
    let order: Vec<String> = removed.into_iter().map(|call| call.target).collect();
    assert_eq!(order.len(), 3);
    assert_eq!(bench.removed("space").as_deref(), Some("3"));
    assert_eq!((bench.removed("age"), bench.reasons()), (None, Vec::new()));
    bench.cancel.cancel();
    bench.tasks.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn images_go_in_order_until_the_disk_shows_enough_space() {
    let mut bench = Bench::new();
    let ids = ["a", "b", "c"].map(|name| bench.image(&format!("r.example/{name}:1"), 3));
    let used = bench.container("p", "r.example/a:1", Bench::labels("p"), None).await;
    bench.start(POLICY);
    bench.after(MINUTE).await;
    bench.runtime.remove_behind_back(used.as_str());
    bench.after(4 * MINUTE).await;
    bench.disk.lock().0 = 79 * GIB;
    bench.after(5 * MINUTE).await;
    let removed: Vec<String> =
        bench.runtime.calls_of(Operation::RemoveImage).into_iter().map(|call| call.target).collect();
    let mut never_used = vec![ids[1].clone(), ids[2].clone()];
    never_used.sort();
    assert_eq!(removed.len(), 3, "88 % are used, 79 % without images");
    assert_eq!((removed[..2].to_vec(), &removed[2]), (never_used, &ids[0]), "the used one last");
}

#[tokio::test(start_paused = true)]
async fn an_image_goes_once_it_was_unused_for_longer_than_the_maximum_age() {
    let mut bench = Bench::new();
    bench.image("r.example/unused:1", 1);
    bench.image("r.example/used:1", 1);
    bench.image("r.example/pinned:1", 1);
    bench.runtime.pin_image("r.example/pinned:1");
    let used = bench.container("p", "r.example/used:1", Bench::labels("p"), None).await;
    bench.start(ImageGcPolicy { maximum_age: Some(30 * MINUTE), ..POLICY });
    bench.after(30 * MINUTE).await;
    // A clock that is set is not time that passes.
    bench.clock.set(10 * 365 * 24 * 3600);
    bench.after(Duration::from_secs(1)).await;
    assert_eq!(bench.present(), ["pinned:1", "unused:1", "used:1"]);
    bench.after(5 * MINUTE).await;
    assert_eq!(bench.present(), ["pinned:1", "used:1"]);
    assert_eq!((bench.removed("age").as_deref(), bench.removed("space")), (Some("1"), None));
    bench.runtime.remove_behind_back(used.as_str());
    bench.clock.set(-20 * 365 * 24 * 3600);
    bench.after(29 * MINUTE).await;
    assert_eq!(bench.present(), ["pinned:1", "used:1"]);
    bench.after(10 * MINUTE).await;
    assert_eq!(bench.present(), ["pinned:1"]);
}

#[tokio::test(start_paused = true)]
async fn too_little_space_is_reported_with_what_uses_it() {
    let mut bench = Bench::new();
    bench.image("r.example/own:1", 4);
    bench.image("r.example/old:1", 1);
    bench.container("web", "r.example/own:1", Bench::labels("web"), None).await;
    bench.disk.lock().0 = 90 * GIB;
    bench.start(ImageGcPolicy { minimum_age: Duration::ZERO, ..POLICY });
    bench.after(MINUTE).await;
    assert_eq!(bench.reasons(), ["FreeDiskSpaceFailed"]);
    let message = bench.events.lock()[0].message.clone();
    for part in
        ["(95% of 107GB used, /images)", "but freed 1.07GB", "1 image (4.29GB) is in use, by pod ns/web"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    bench.after(5 * MINUTE).await;
    assert_eq!(bench.reasons(), ["FreeDiskSpaceFailed", "FreeDiskSpaceFailed", "ImageGCFailed"]);
    bench.disk.lock().1 = 0;
    bench.after(5 * MINUTE).await;
    assert_eq!(bench.reasons()[3..], ["InvalidDiskCapacity", "ImageGCFailed"]);
    *bench.disk.lock() = (0, 100 * GIB);
    bench.after(5 * MINUTE).await;
    assert_eq!(bench.reasons().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn one_failure_is_no_event_and_the_next_is() {
    let mut bench = Bench::new();
    bench.image("r.example/old:1", 1);
    let failure = || Fault::fail("disk on fire");
    bench.runtime.faults().add(Rule::new(Operation::ListImages, failure()).times(2));
    bench.start(POLICY);
    bench.after(MINUTE).await;
    assert!(bench.reasons().is_empty());
    bench.after(5 * MINUTE).await;
    let events = bench.events.lock().clone();
    assert_eq!((events.len(), &*events[0].reason), (1, "ImageGCFailed"));
    assert_eq!(events[0].message, "cannot list the images: disk on fire");

    bench.after(5 * MINUTE).await;
    bench.runtime.faults().add(Rule::new(Operation::RemoveImage, failure()));
    bench.disk.lock().0 = 90 * GIB;
    bench.after(5 * MINUTE).await;
    assert_eq!(bench.reasons().len(), 1, "a pass succeeded in between");
    bench.after(5 * MINUTE).await;
    let message = bench.events.lock()[1].message.clone();
    assert_eq!(message, "freed 0B, but 1 image cannot be removed: r.example/old:1: disk on fire");
}

#[tokio::test(start_paused = true)]
async fn unused_images_are_listed_and_removed_on_request() {
    let mut bench = Bench::new();
    assert!(matches!(bench.gc.unused().await, Err(GcError::NotRunning)));
    for name in ["own", "old", "broken"] {
        bench.image(&format!("r.example/{name}:1"), 1);
    }
    bench.container("p", "r.example/own:1", Bench::labels("p"), None).await;
    bench.start(ImageGcPolicy { high_percent: 100, low_percent: 99, ..POLICY });
    bench.after(3 * MINUTE).await;
    bench.image("r.example/young:1", 1);
    bench.runtime.faults().add(Rule::new(Operation::RemoveImage, Fault::fail("in use")).times(1));

    let unused = bench.gc.unused().await.unwrap();
    let names: BTreeSet<&str> = unused.images.iter().map(|image| image.names[0].as_str()).collect();
    assert_eq!(names, ["r.example/broken:1", "r.example/old:1", "r.example/young:1"].into());
    let young = unused.images.last().unwrap();
    let from = bench.clock.now().checked_add(POLICY.minimum_age).unwrap();
    assert_eq!(young.fate, Fate::Removable { from: Some(from), expires: None });
    assert_eq!((young.last_used, unused.disk.used_percent()), (None, 4));

    let freed = bench.gc.delete_unused().await.unwrap();
    let failed = RemovalFailure { image: unused.images[0].names[0].clone(), error: "in use".to_owned() };
    assert_eq!((freed.images.len(), freed.bytes(), &freed.failures[..]), (1, GIB, &[failed][..]));
    assert_eq!(freed.images[0].names, unused.images[1].names);
    let stays = "1 image (1.07GB) is in use, by pod ns/p, 1 image (1.07GB) was detected less than 2m0s ago (imageMinimumGCAge)";
    assert_eq!(freed.stays.as_deref(), Some(stays));
    assert_eq!(bench.present().len(), 3, "one in use, one young, one that failed");
    bench.cancel.cancel();
    bench.tasks.join_next().await;
    assert!(matches!(bench.gc.delete_unused().await, Err(GcError::NotRunning)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_before_the_archives_are_known_and_nothing_polls_between_passes() {
    let mut bench = Bench::new();
    bench.image("r.example/old:1", 1);
    bench.archives.send_replace(None);
    bench.disk.lock().0 = 90 * GIB;
    bench.start(ImageGcPolicy { minimum_age: Duration::ZERO, ..POLICY });
    bench.after(6 * MINUTE).await;
    assert_eq!(bench.present(), ["old:1"]);
    assert_eq!(bench.reasons(), ["ImageGCFailed"], "at the second pass");
    bench.archives.send_replace(Some(BTreeSet::new()));
    bench.after(Duration::from_secs(1)).await;
    assert!(bench.present().is_empty());
    let calls = bench.runtime.calls().len();
    bench.after(4 * MINUTE).await;
    assert_eq!(bench.runtime.calls().len(), calls);
}
