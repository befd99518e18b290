//! Tears down all volumes of a pod, also for those who have no reconciler of it: first what a server that does not respond blocks, on threads
//! of its own, then containers' parts of volumes, then the volumes of drivers, then the rest. Keeps nothing in memory but these threads.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_csi::CsiVolumes;
use hostlet_host::{Mounts, SysError, file_work};

use super::error::VolumeError;
use super::external::release_devices;
use super::kinds::{csi, local_volume};
use super::layout::PodLayout;
use super::remote::{find, unmount_all};
use super::threads::VolumeThreads;
use super::{apply, devices, driver_dirs, sub_path};

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
    take_down(root, uid, mounts, threads, None).await
}

/// The same where `drivers` unpublish theirs.
pub(super) async fn take_down(
    root: &Path,
    uid: &PodUid,
    mounts: &Arc<dyn Mounts>,
    threads: &VolumeThreads,
    drivers: Option<&CsiVolumes>,
) -> Result<(), VolumeError> {
    // A UID that is no name of a directory, as one from the runtime may be, has no volumes.
    let Some(layout) = PodLayout::new(root, uid) else { return Ok(()) };
    let host = mounts.clone();
    // The panic itself is logged by the panic hook.
    let find = on_files(&layout, move |layout| find(layout, &*host).map_err(looked));
    unmount_all(find.await?, uid, threads, mounts).await?;
    // A container's part of a volume, before the volume.
    let host = mounts.clone();
    on_files(&layout, move |layout| sub_path::clean(layout, &*host).map_err(looked)).await?;
    if let Some(drivers) = drivers {
        let (root, host) = (root.to_owned(), mounts.clone());
        on_files(&layout, move |layout| devices::clear(&root, layout, csi::DIRECTORY, &*host)).await?;
        drivers.release(uid).await?;
    }
    let (root, uid, host, locks) = (root.to_owned(), uid.clone(), mounts.clone(), threads.devices.clone());
    let rest = move |layout: &PodLayout| {
        driver_dirs::clear(&root, layout, &*host)?;
        let local = local_volume::DIRECTORY;
        devices::clear(&root, layout, local, &*host)?;
        apply::tear_down(&root, &uid, &*host)?;
        release_devices(&root, local, &*host, &locks).map_err(VolumeError::Look)
    };
    on_files(&layout, rest).await
}

/// Does work on files that takes a moment.
async fn on_files<T: Send + 'static>(
    layout: &PodLayout,
    work: impl FnOnce(&PodLayout) -> Result<T, VolumeError> + Send + 'static,
) -> Result<T, VolumeError> {
    let layout = layout.clone();
    file_work(move || work(&layout)).await.unwrap_or(Err(VolumeError::Ended))
}

fn looked(error: SysError) -> VolumeError {
    VolumeError::Look(error.into())
}
