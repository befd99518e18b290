//! What the reconcilers of all pods share. Decides nothing.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{BackoffPolicy, Conflated, PodUid, WallClock};
use hostlet_csi::{CsiVolumes, DriverObjects, Expansions, NodeSize};
use hostlet_host::{HostDisks, MountTable, Mounts, PathError, file_work, path_unit};
use hostlet_pod::ExternalVolumes;
use hostlet_pod::objects::{ObjectSource, VolumeNeeds};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::external::Means;
use super::metrics::VolumeMetrics;
use super::model::{NodeAmounts, NodeLabels};
use super::threads::VolumeThreads;

/// Delay until a failure is retried without a request. Changes of objects are handled at once.
pub(super) const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(120),
};

/// A pod's part of its pauses, from 0 to 1. It is the same for ever, so that a history can be repeated, and differs between pods: after
/// an outage not all pods of all nodes request their tokens at once.
pub(super) fn spread(uid: &PodUid) -> f64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    f64::from(u16::try_from(hasher.finish() >> 48).unwrap_or_default()) / f64::from(u16::MAX)
}

/// What all reconcilers share.
pub(super) struct Shared {
    pub(super) root: std::path::PathBuf,
    pub(super) node: NodeAmounts,
    pub(super) labels: NodeLabels,
    pub(super) mounts: Arc<dyn Mounts>,
    pub(super) threads: VolumeThreads,
    pub(super) objects: Arc<dyn ObjectSource>,
    pub(super) csi: CsiVolumes,
    pub(super) drivers: DriverObjects,
    /// What claims say of the sizes of volumes; `None` without an API server.
    pub(super) expansions: Option<Arc<dyn Expansions>>,
    pub(super) sizes: Sizes,
    /// The label of containers' files by the host's SELinux policy; `None` without SELinux.
    pub(super) file_label: Option<String>,
    pub(super) clock: WallClock,
    pub(super) changed: Conflated<()>,
    pub(super) metrics: VolumeMetrics,
    pub(super) external: watch::Sender<ExternalVolumes>,
    pub(super) volume_needs: watch::Sender<VolumeNeeds>,
}

impl Shared {
    /// Performs work on a path that a pod named.
    pub(super) async fn on_path<T: Send + 'static>(
        &self,
        uid: &PodUid,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PathError> {
        let (mounts, named) = (self.mounts.clone(), path.to_owned());
        // Without the mounts, each path counts as a separate filesystem.
        let unit = file_work(move || path_unit(&named, &mounts.table().unwrap_or_default())).await;
        let unit = unit.unwrap_or_else(|_| path.to_owned());
        self.threads.paths.run(uid.as_str(), &unit, path, work).await
    }

    /// With what volumes are mounted.
    pub(super) fn means(&self) -> Means<'_> {
        Means { mounts: &*self.mounts, disks: &HostDisks, devices: &self.threads.devices }
    }

    /// The mounts of the host; none if they cannot be read.
    pub(super) async fn mount_table(&self) -> MountTable {
        let mounts = self.mounts.clone();
        file_work(move || mounts.table()).await.ok().and_then(Result::ok).unwrap_or_default()
    }
}

/// What this node knows of the sizes of volumes, by PersistentVolume. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(Arc<Mutex<BTreeMap<String, NodeSize>>>);

impl Sizes {
    pub(super) fn get(&self, volume: &str) -> NodeSize {
        self.0.lock().get(volume).copied().unwrap_or_default()
    }

    pub(super) fn set(&self, volume: &str, size: NodeSize) {
        self.0.lock().insert(volume.to_owned(), size);
    }

    /// A pod that has the volume as well finds it out again.
    pub(super) fn forget(&self, volume: &str) {
        self.0.lock().remove(volume);
    }
}
