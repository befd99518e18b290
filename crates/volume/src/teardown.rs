//! Tears down all volumes of a pod, also for those who have no reconciler of it: first what a server that does not respond blocks, on threads
//! of its own, then containers' parts of volumes, then the volumes of drivers, then the rest. Keeps nothing in memory but these threads.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_csi::CsiVolumes;
use hostlet_host::{Mounts, file_work};

use super::error::VolumeError;
use super::layout::PodLayout;
use super::remote::{find, unmount_all};
use super::threads::VolumeThreads;
use super::{apply, driver_dirs, sub_path};

/// Tears down the volumes of a pod of which nothing runs any more, where no daemon runs, and no matter which set them up. `root` is the
/// daemon's directory.
///
/// # Errors
/// A volume is in use, its server does not respond, only its driver can unpublish it, or there is something in it that is not hostlet's.
/// Then retry.
pub async fn tear_down(
    root: &Path,
    uid: &PodUid,
    mounts: &Arc<dyn Mounts>,
    threads: &VolumeThreads,
) -> Result<(), VolumeError> {
    take_down(root, uid, mounts, threads, &CsiVolumes::none()).await
}

/// The same where `drivers` unpublish theirs.
pub(super) async fn take_down(
    root: &Path,
    uid: &PodUid,
    mounts: &Arc<dyn Mounts>,
    threads: &VolumeThreads,
    drivers: &CsiVolumes,
) -> Result<(), VolumeError> {
    // A UID that is no name of a directory, as one from the runtime may be, has no volumes.
    let Some(layout) = PodLayout::new(root, uid) else { return Ok(()) };
    let (pod, host) = (layout.clone(), mounts.clone());
    // The panic itself is logged by the panic hook.
    let found = file_work(move || find(&pod, &*host)).await.map_err(|_| VolumeError::Ended)?;
    let found = found.map_err(|error| VolumeError::Look(error.into()))?;
    unmount_all(found, uid, threads, mounts).await?;
    // A container's part of a volume, before the volume.
    let (pod, host) = (layout.clone(), mounts.clone());
    let cleaned = file_work(move || sub_path::clean(&pod, &*host)).await.map_err(|_| VolumeError::Ended)?;
    cleaned.map_err(|error| VolumeError::Look(error.into()))?;
    drivers.release(uid).await?;
    let (root, uid, host) = (root.to_owned(), uid.clone(), mounts.clone());
    let work = move || {
        driver_dirs::clear(&root, &layout, &*host)?;
        apply::tear_down(&root, &uid, &*host)
    };
    file_work(work).await.unwrap_or(Err(VolumeError::Ended))
}
