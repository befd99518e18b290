//! The only disk of the node. How full it is follows from what is there: images and writable layers in the runtime, logs and volumes as
//! files, each of whose bytes stands for many.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::node::Signal;
use hostlet_base::{ContainerId, POD_UID_LABEL, PodUid, Quantity, WallClock};
use hostlet_host::FilesystemUsage;
use hostlet_observe::stats::{DiskLayout, MeasureError, Observation, SignalReport};
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::wire;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::super::testing::Node;
use crate::eviction::{
    ContainerConsumption, DiskSpace, MemoryNotice, NodeObserver, PodConsumption, PodsConsumption,
};

/// Its size, bytes.
const CAPACITY: u64 = 100 << 30;
/// What the operating system takes, bytes.
const SYSTEM: u64 = 60 << 30;
/// What a byte of a file stands for.
const SCALE: u64 = 16 << 10;

/// The threshold of the image garbage collection, percent of the disk in use.
const HIGH: u64 = 85;
/// How full it is, percent, when every byte counts.
const CRITICAL: u64 = HIGH + 1;
/// How long the sum of all files is good enough until then.
const FRESH: Duration = Duration::from_secs(50);

/// The disk. Clones share it.
#[derive(Clone)]
pub(super) struct Disk {
    runtime: FakeRuntime,
    /// Volumes of pods, and logs.
    pods: PathBuf,
    logs: PathBuf,
    clock: WallClock,
    /// What files take, and when that was added up.
    files: Arc<Mutex<Option<(Instant, u64)>>>,
    /// Since when every look, of the daemon or of the test, found it above the threshold of the image garbage collection.
    full_since: Arc<Mutex<Option<Instant>>>,
}

impl Disk {
    pub(super) fn of(node: &Node) -> Self {
        let root = node.root();
        let (pods, logs) = (root.join("pods"), root.join("pod-logs"));
        let (runtime, clock) = (node.runtime.clone(), node.clock());
        Self { runtime, pods, logs, clock, files: Arc::default(), full_since: Arc::default() }
    }

    pub(super) fn usage(&self) -> FilesystemUsage {
        let mut usage = self.measured();
        if percent(&usage) >= CRITICAL {
            self.changed();
            usage = self.measured();
        }
        let mut full_since = self.full_since.lock();
        match percent(&usage) {
            ..HIGH => *full_since = None,
            HIGH.. => *full_since = full_since.or_else(|| Some(Instant::now())),
        }
        usage
    }

    fn measured(&self) -> FilesystemUsage {
        let images: u64 = self.runtime.wire_images().iter().map(|image| image.size).sum();
        let layers: u64 = self.runtime.wire_containers().iter().map(|c| self.layer(c)).sum();
        let used = SYSTEM + images + layers + self.files() * SCALE;
        FilesystemUsage {
            capacity: CAPACITY,
            available: CAPACITY.saturating_sub(used),
            used: used.min(CAPACITY),
            ..FilesystemUsage::default()
        }
    }

    /// The bytes of all files, added up once in so many seconds.
    fn files(&self) -> u64 {
        let (mut known, now) = (self.files.lock(), Instant::now());
        match *known {
            Some((at, bytes)) if now - at < FRESH => bytes,
            Some(_) | None => {
                let bytes = files(&self.pods) + files(&self.logs);
                *known = Some((now, bytes));
                bytes
            }
        }
    }

    /// Files were written or removed.
    pub(super) fn changed(&self) {
        *self.files.lock() = None;
    }

    /// How full it is, percent.
    pub(super) fn percent(&self) -> u64 {
        percent(&self.usage())
    }

    /// How long it has been above the threshold of the image garbage collection without a break. What is above it only between two looks of
    /// the collection is not for it to relieve.
    pub(super) fn full_for(&self) -> Duration {
        self.full_since.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// What it is full of is not for the garbage collection to relieve.
    pub(super) fn excuse(&self) {
        *self.full_since.lock() = None;
    }

    fn layer(&self, container: &wire::Container) -> u64 {
        self.runtime.written(&ContainerId::from(container.id.as_str()))
    }

    fn of_pod(&self, uid: &str) -> DiskSpace {
        DiskSpace { bytes: files(&self.pods.join(uid).join("volumes")) * SCALE, inodes: 1 }
    }
}

fn percent(usage: &FilesystemUsage) -> u64 {
    100 - usage.available * 100 / CAPACITY
}

/// The bytes of all files below a directory.
fn files(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => files(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[async_trait]
impl NodeObserver for Disk {
    async fn look(&self) -> SignalReport {
        let (usage, at) = (self.usage(), self.clock.now());
        let observation = |signal: Signal| {
            let (available, capacity) = match signal {
                Signal::NodefsAvailable | Signal::ImagefsAvailable | Signal::ContainerfsAvailable => {
                    (usage.available, usage.capacity)
                }
                Signal::MemoryAvailable
                | Signal::AllocatableMemoryAvailable
                | Signal::PidAvailable
                | Signal::NodefsInodesFree
                | Signal::ImagefsInodesFree
                | Signal::ContainerfsInodesFree => (CAPACITY / 2, CAPACITY),
            };
            let (available, capacity) = (Quantity::bytes(available), Quantity::bytes(capacity));
            (signal, Observation { at, available, capacity })
        };
        SignalReport {
            observed: Signal::ALL.map(observation).into(),
            unreadable: BTreeMap::new(),
            layout: Some(DiskLayout::One),
        }
    }

    async fn pods(&self, _: Signal) -> Result<PodsConsumption, Arc<MeasureError>> {
        let mut pods = PodsConsumption::new();
        for container in self.runtime.wire_containers() {
            let uid = container.labels.get(POD_UID_LABEL).cloned().unwrap_or_default();
            let volumes = self.of_pod(&uid);
            let new = || PodConsumption { volumes, ..PodConsumption::default() };
            let pod = pods.entry(PodUid::from(uid)).or_insert_with(new);
            let layer = Some(DiskSpace { bytes: self.layer(&container), inodes: 1 });
            let logs = Some(DiskSpace::default());
            let name = container.metadata.unwrap_or_default().name;
            let image = container.image_ref;
            pod.containers.insert(name.into(), ContainerConsumption { memory: None, layer, logs, image });
        }
        Ok(pods)
    }

    async fn noticed(&self) -> MemoryNotice {
        std::future::pending().await
    }
}
