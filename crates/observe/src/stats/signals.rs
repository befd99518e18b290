//! What is left of the node's own resources, by eviction signal (upstream's `makeSignalObservations`). Reads what statistics read, of
//! the node alone: pods are not measured for it. Compares nothing with thresholds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_base::node::Signal;
use hostlet_base::{Quantity, WallClock, error_chain};
use hostlet_host::{FilesystemUsage, file_work, filesystem_usage};
use hostlet_runtime::cri::{ImageFilesystem, ImageService};
use jiff::Timestamp;

use super::error::MeasureError;
use super::handle::UsageStats;
use super::node_usage::NodeUsage;
use super::usage::Detail;

/// Dependencies of the observations.
#[derive(Clone)]
pub struct SignalSettings {
    /// Measures memory and processes.
    pub usage: UsageStats,
    /// The runtime, which knows where images are.
    pub images: Arc<dyn ImageService>,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// Memory in huge pages, bytes, which is not available to others; 0 without `HugepageAwareEviction`.
    pub huge_pages: u64,
    /// Whether images and writable layers may be on different filesystems (`KubeletSeparateDiskGC`).
    pub may_split_disks: bool,
    /// The wall clock.
    pub clock: WallClock,
}

/// What is left of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When it was observed.
    pub at: Timestamp,
    /// What is left.
    pub available: Quantity,
    /// What would be left of an unused node.
    pub capacity: Quantity,
}

/// On which filesystems images and writable layers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLayout {
    /// Both on that of the daemon's directory.
    One,
    /// Both on one of their own.
    ImagesApart,
    /// On different ones, or on one each.
    Split,
}

/// What was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalReport {
    /// Each signal that could be read.
    pub observed: BTreeMap<Signal, Observation>,
    /// Why the others could not.
    pub unreadable: BTreeMap<Signal, String>,
    /// The filesystems; `None` if the runtime did not tell.
    pub layout: Option<DiskLayout>,
}

/// Observes the signals. Clones share it.
#[derive(Clone)]
pub struct SignalReader(Arc<SignalSettings>);

/// Why a filesystem could not be measured, for people.
#[derive(Clone, Debug)]
struct Unreadable(String);

/// The filesystems that signals are about.
struct Filesystems {
    root: Result<FilesystemUsage, Unreadable>,
    images: Result<FilesystemUsage, Unreadable>,
    containers: Result<FilesystemUsage, Unreadable>,
    layout: Option<DiskLayout>,
}

const MEMORY_SIGNALS: [Signal; 3] =
    [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable, Signal::PidAvailable];

impl SignalReader {
    /// Observes nothing yet.
    pub fn new(settings: SignalSettings) -> Self {
        Self(Arc::new(settings))
    }

    /// Observes every signal now. A runtime that does not answer conceals the disks with images only.
    pub async fn look(&self) -> SignalReport {
        let (usage, disks) = tokio::join!(self.0.usage.usage(Detail::Node), self.filesystems());
        let mut report = SignalReport::default();
        match usage {
            Ok(usage) => self.add_usage(&usage, &mut report),
            Err(error) => {
                let why = error_chain(&*error);
                report.unreadable.extend(MEMORY_SIGNALS.map(|signal| (signal, why.to_string())));
            }
        }
        report.layout = disks.layout;
        let at = self.0.clock.now();
        let filesystems = [
            (disks.root, Signal::NodefsAvailable, Signal::NodefsInodesFree),
            (disks.images, Signal::ImagefsAvailable, Signal::ImagefsInodesFree),
            (disks.containers, Signal::ContainerfsAvailable, Signal::ContainerfsInodesFree),
        ];
        for (filesystem, space, inodes) in filesystems {
            match filesystem {
                Ok(usage) => {
                    let of_space = (Quantity::bytes(usage.available), Quantity::bytes(usage.capacity));
                    let of_inodes = (Quantity::count(usage.inodes_free), Quantity::count(usage.inodes));
                    for (signal, (available, capacity)) in [(space, of_space), (inodes, of_inodes)] {
                        report.observed.insert(signal, Observation { at, available, capacity });
                    }
                }
                Err(why) => report.unreadable.extend([space, inodes].map(|signal| (signal, why.0.clone()))),
            }
        }
        report
    }

    fn add_usage(&self, usage: &NodeUsage, report: &mut SignalReport) {
        let at = usage.at;
        let root = &usage.root.usage;
        let left = root.limits.memory.map(|limit| limit.saturating_sub(root.memory.working_set));
        match left.filter(|_| root.memory.usage > 0) {
            Some(left) => {
                // As upstream, the capacity is without huge pages, too.
                let available = left.saturating_sub(self.0.huge_pages);
                let capacity = Quantity::bytes(available.saturating_add(root.memory.working_set));
                let available = Quantity::bytes(available);
                report.observed.insert(Signal::MemoryAvailable, Observation { at, available, capacity });
            }
            None => {
                let why = "the memory of the root cgroup cannot be read".to_owned();
                report.unreadable.insert(Signal::MemoryAvailable, why);
            }
        }
        let pods = usage.all_pods.as_ref().map(|unit| &unit.usage);
        match pods.and_then(|pods| Some((pods.limits.memory?, pods.memory.working_set))) {
            Some((limit, working_set)) => {
                let available = limit.saturating_sub(working_set);
                let capacity = Quantity::bytes(available.saturating_add(working_set));
                let available = Quantity::bytes(available);
                let observed = Observation { at, available, capacity };
                report.observed.insert(Signal::AllocatableMemoryAvailable, observed);
            }
            None => {
                let why = "the memory limit of the cgroup of all pods cannot be read".to_owned();
                report.unreadable.insert(Signal::AllocatableMemoryAvailable, why);
            }
        }
        match (usage.tasks.current, usage.tasks.max) {
            (Some(current), Some(max)) => {
                let (available, capacity) =
                    (Quantity::count(max.saturating_sub(current)), Quantity::count(max));
                report.observed.insert(Signal::PidAvailable, Observation { at, available, capacity });
            }
            (None, _) | (_, None) => {
                let why = "the number of processes cannot be read".to_owned();
                report.unreadable.insert(Signal::PidAvailable, why);
            }
        }
    }

    async fn filesystems(&self) -> Filesystems {
        let places = self.0.images.runtime_filesystems().await;
        let places = places.map_err(|source| MeasureError::Images { source }).and_then(|filesystems| {
            let first = |all: Vec<ImageFilesystem>| all.into_iter().next().map(|filesystem| filesystem.path);
            let images = first(filesystems.images).ok_or(MeasureError::NoImageFilesystem)?;
            // A runtime that says nothing of containers keeps them with images.
            let containers = first(filesystems.containers).unwrap_or_else(|| images.clone());
            Ok((images, containers))
        });
        let (root, may_split) = (self.0.root_dir.clone(), self.0.may_split_disks);
        let work = move || Filesystems::measure(&root, places, may_split);
        file_work(work).await.unwrap_or_else(|source| {
            let why = Unreadable(error_chain(&MeasureError::Panicked { source }).to_string());
            let [root, images, containers] = [0; 3].map(|_| Err(why.clone()));
            Filesystems { root, images, containers, layout: None }
        })
    }
}

impl Filesystems {
    /// Blocking.
    fn measure(root: &Path, places: Result<(PathBuf, PathBuf), MeasureError>, may_split: bool) -> Self {
        let measure =
            |path: &Path| filesystem_usage(path).map_err(|error| Unreadable(error_chain(&error).to_string()));
        let usage = measure(root);
        let (images, containers) = match places {
            Ok(places) => places,
            Err(error) => {
                let why = Unreadable(error_chain(&error).to_string());
                return Self { root: usage, images: Err(why.clone()), containers: Err(why), layout: None };
            }
        };
        let layout = layout(root, &images, &containers);
        if layout == Some(DiskLayout::Split) && !may_split {
            let why = "images and containers are on different filesystems, but the feature gate KubeletSeparateDiskGC is off";
            return Self {
                root: usage,
                images: Err(Unreadable(why.to_owned())),
                containers: Err(Unreadable(why.to_owned())),
                layout: None,
            };
        }
        Self { root: usage, images: measure(&images), containers: measure(&containers), layout }
    }
}

/// Which of the three are on the same filesystem; `None` if a path is not of this host.
fn layout(root: &Path, images: &Path, containers: &Path) -> Option<DiskLayout> {
    let device = |path: &Path| Some(fs::metadata(path).ok()?.dev());
    let (root, images, containers) = (device(root)?, device(images)?, device(containers)?);
    Some(match (images == containers, images == root) {
        (false, _) => DiskLayout::Split,
        (true, true) => DiskLayout::One,
        (true, false) => DiskLayout::ImagesApart,
    })
}

#[cfg(test)]
mod tests {
    use hostlet_base::testing::at;
    use hostlet_host::cgroup::CgroupVersion;
    use hostlet_runtime::cri::Operation;
    use hostlet_runtime::cri::fake::{FakeRuntime, Fault, Rule};

    use super::super::testing::FakeHost;
    use super::super::{SystemPaths, UsageSettings};
    use super::*;
    use crate::pleg::Cache;

    fn reader(host: &FakeHost, runtime: &FakeRuntime, huge_pages: u64) -> SignalReader {
        let clock = WallClock::of_tokio(at(0));
        let usage = UsageStats::new(UsageSettings {
            cgroups: host.cgroups.clone(),
            observed: Cache::default(),
            proc: host.proc(),
            root_dir: host.path().to_owned(),
            memory: 1 << 30,
            swap: 0,
            booted_at: Timestamp::UNIX_EPOCH,
            system: SystemPaths::default(),
            clock: clock.clone(),
        });
        SignalReader::new(SignalSettings {
            usage,
            images: Arc::new(runtime.clone()),
            root_dir: host.path().to_owned(),
            huge_pages,
            may_split_disks: true,
            clock,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn every_signal_is_read_on_either_version() {
        for version in [CgroupVersion::V1, CgroupVersion::V2] {
            let (host, runtime) = (FakeHost::new(version), FakeRuntime::new());
            let report = reader(&host, &runtime, 1 << 20).look().await;
            assert_eq!(report.unreadable, BTreeMap::new(), "{version}");
            let amounts = |signal: Signal| {
                let Observation { available, capacity, .. } = report.observed[&signal];
                (available.value(), capacity.value())
            };
            let working_set = match version {
                // Of 8 MiB, 2 are inactive page cache.
                CgroupVersion::V1 => 6 << 20,
                // The root of v2 uses what is anonymous or cached.
                CgroupVersion::V2 => 5 << 20,
            };
            let left = (1 << 30) - working_set - (1 << 20);
            assert_eq!(amounts(Signal::MemoryAvailable), (left, left + working_set), "{version}");
            assert_eq!(amounts(Signal::AllocatableMemoryAvailable), (58 << 20, 64 << 20), "{version}");
            assert_eq!(amounts(Signal::PidAvailable), (32_768 - 345, 32_768));
            assert!(amounts(Signal::NodefsAvailable).1 > 0 && amounts(Signal::ImagefsAvailable).1 > 0);
            assert!(report.layout.is_some() && report.observed.len() == Signal::ALL.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_runtime_and_missing_files_conceal_only_their_signals() {
        let (host, runtime) = (FakeHost::new(CgroupVersion::V2), FakeRuntime::new());
        runtime.faults().add(Rule::new(Operation::ImageFsInfo, Fault::fail("no")));
        fs::remove_file(host.proc().join("loadavg")).unwrap();
        host.set("/kubepods", "memory.max", "max\n");
        let report = reader(&host, &runtime, 0).look().await;
        let unreadable: Vec<Signal> = report.unreadable.keys().copied().collect();
        let expected = [
            Signal::AllocatableMemoryAvailable,
            Signal::ImagefsAvailable,
            Signal::ImagefsInodesFree,
            Signal::ContainerfsAvailable,
            Signal::ContainerfsInodesFree,
            Signal::PidAvailable,
        ];
        assert_eq!(unreadable, expected);
        assert_eq!(report.layout, None);
        assert!(report.observed.contains_key(&Signal::NodefsAvailable));
    }

    #[test]
    fn filesystems_are_told_apart_by_their_devices() {
        let (root, proc) = (Path::new("/"), Path::new("/proc"));
        assert_eq!(layout(root, root, root), Some(DiskLayout::One));
        assert_eq!(layout(root, proc, proc), Some(DiskLayout::ImagesApart));
        assert_eq!(layout(root, proc, root), Some(DiskLayout::Split));
        assert_eq!(layout(root, root, proc), Some(DiskLayout::Split));
        assert_eq!(layout(root, Path::new("/nowhere"), root), None);
        let places = || Ok((PathBuf::from("/proc"), PathBuf::from("/")));
        let split = Filesystems::measure(root, places(), false);
        assert!(split.root.is_ok() && split.images.is_err() && split.containers.is_err());
        assert!(Filesystems::measure(root, places(), true).images.is_ok());
    }
}
