//! How full the node's filesystems are, and what running containers and logs take on them: one measurement. Volumes are measured by the
//! storage task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_base::{ContainerId, PodUid, WallClock, error_chain};
use hostlet_host::{
    FilesystemUsage, PodDirs, SpaceUsage, SysError, file_work, files_usage, filesystem_usage, tree_usage,
};
use hostlet_runtime::cri::{ContainerState, ContainerStats, ImageFilesystem, ImageService, RuntimeService};
use jiff::Timestamp;

use super::error::MeasureError;
use crate::log::LogLayout;
use crate::pleg::{Cache, PodStatus};

/// Dependencies of the measurements.
#[derive(Clone)]
pub struct DiskSettings {
    /// The runtime, which measures writable layers.
    pub runtime: Arc<dyn RuntimeService>,
    /// The same, which measures images.
    pub images: Arc<dyn ImageService>,
    /// The observed pods.
    pub observed: Cache,
    /// The directories of logs.
    pub logs: LogLayout,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// The filesystem of the images.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageUsage {
    /// What the images take, as the runtime measured it.
    pub images: ImageFilesystem,
    /// The filesystem that has them; `None` if its path is not of this host.
    pub filesystem: Option<FilesystemUsage>,
}

/// What a running container takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContainerDisk {
    /// Its writable layer; `None` before the runtime has measured it.
    pub layer: Option<LayerUsage>,
    /// Its logs, including logs of its earlier instances; `None` if their directory is missing or cannot be read.
    pub logs: Option<SpaceUsage>,
}

/// A writable layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerUsage {
    /// When the runtime measured it.
    pub at: Timestamp,
    /// Allocated space, bytes.
    pub bytes: u64,
    /// Number of inodes, if the runtime says.
    pub inodes: Option<u64>,
    /// The filesystem that has it; `None` if its path is not of this host.
    pub filesystem: Option<FilesystemUsage>,
}

/// What the disks have.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskUsage {
    /// When it was measured.
    pub at: Timestamp,
    /// The filesystem of the daemon's directory.
    pub root: FilesystemUsage,
    /// What images take, and the filesystem that has them.
    pub images: ImageUsage,
    /// Each running container.
    pub containers: BTreeMap<ContainerId, ContainerDisk>,
    /// The files of pods themselves, without files of their containers: in their log directories, and their hosts files.
    pub pods: BTreeMap<PodUid, SpaceUsage>,
}

/// Measures everything once.
pub(super) async fn measure(settings: Arc<DiskSettings>) -> Result<DiskUsage, MeasureError> {
    let (images, stats) =
        tokio::join!(settings.images.image_filesystems(), settings.runtime.container_stats(None));
    let images = images.map_err(|source| MeasureError::Images { source })?;
    // Upstream as well reports only the first.
    let images = images.into_iter().next().ok_or(MeasureError::NoImageFilesystem)?;
    let stats = stats.map_err(|source| MeasureError::WritableLayers { source })?;
    let work = move || files(&settings, images, stats);
    let measured = file_work(work).await.map_err(|source| MeasureError::Panicked { source })?;
    measured.map_err(|source| MeasureError::Files { source })
}

/// Measures what is in files, and the filesystems. Blocking.
fn files(
    settings: &DiskSettings,
    images: ImageFilesystem,
    stats: Vec<ContainerStats>,
) -> Result<DiskUsage, SysError> {
    let mut filesystems: BTreeMap<PathBuf, Option<FilesystemUsage>> = BTreeMap::new();
    let mut filesystem = |path: &Path| match filesystems.get(path) {
        Some(known) => *known,
        None => {
            let usage = filesystem_usage(path).ok();
            filesystems.insert(path.to_owned(), usage);
            usage
        }
    };
    let images = ImageUsage { filesystem: filesystem(&images.path), images };
    let layers: BTreeMap<ContainerId, LayerUsage> = stats
        .into_iter()
        .filter_map(|stats| {
            let layer = stats.writable_layer?;
            let filesystem = layer.filesystem.as_deref().and_then(&mut filesystem);
            let usage = LayerUsage { at: layer.at, bytes: layer.bytes, inodes: layer.inodes, filesystem };
            Some((stats.id, usage))
        })
        .collect();
    let root = filesystem_usage(&settings.root_dir)?;
    let mut usage = DiskUsage {
        at: settings.clock.now(),
        root,
        images,
        containers: BTreeMap::new(),
        pods: BTreeMap::new(),
    };
    for pod in settings.observed.last_known() {
        add_pod(settings, &pod, &layers, &mut usage);
    }
    Ok(usage)
}

fn add_pod(
    settings: &DiskSettings,
    status: &PodStatus,
    layers: &BTreeMap<ContainerId, LayerUsage>,
    usage: &mut DiskUsage,
) {
    let pod = &status.pod;
    let mut running =
        status.containers.iter().filter(|container| container.state == ContainerState::Running).peekable();
    if running.peek().is_none() {
        return;
    }
    for container in running {
        let layer = layers.get(&container.id).copied();
        let directory = settings.logs.container_dir(pod, &container.name);
        let logs = directory.is_dir().then(|| readable(files_usage(&directory))).flatten();
        usage.containers.insert(container.id.clone(), ContainerDisk { layer, logs });
    }
    let mut own = readable(files_usage(&settings.logs.pod_dir(pod))).unwrap_or_default();
    let hosts = PodDirs::new(&settings.root_dir, &pod.uid);
    let hosts = hosts.and_then(|dirs| readable(tree_usage(&dirs.hosts_file(), u64::MAX)));
    let hosts = hosts.map(|hosts| hosts.space).unwrap_or_default();
    own.bytes = own.bytes.saturating_add(hosts.bytes);
    own.inodes = own.inodes.saturating_add(hosts.inodes);
    usage.pods.insert(pod.uid.clone(), own);
}

/// What could be measured of a pod. As upstream, an error concerns nothing else.
fn readable<T>(measured: Result<T, SysError>) -> Option<T> {
    measured
        .inspect_err(|error| tracing::debug!(error = error_chain(error), "files of a pod are not measured"))
        .ok()
}
