//! Tears down all volumes of a pod, also for those who have no reconciler of it: first what a server that does not respond blocks, on threads
//! of its own, then the rest. Keeps nothing in memory but these threads.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_host::{Mounts, file_work};

use super::apply;
use super::error::VolumeError;
use super::layout::PodLayout;
use super::remote::{find, unmount_all};
use super::threads::VolumeThreads;

/// Tears down the volumes of a pod of which nothing runs any more, no matter which daemon set them up. `root` is the daemon's directory.
///
/// # Errors
/// A volume is in use, its server does not respond, or there is something in it that is not hostlet's. Then retry.
pub async fn tear_down(
    root: &Path,
    uid: &PodUid,
    mounts: &Arc<dyn Mounts>,
    threads: &VolumeThreads,
) -> Result<(), VolumeError> {
    // A UID that is no name of a directory, as one from the runtime may be, has no volumes.
    let Some(layout) = PodLayout::new(root, uid) else { return Ok(()) };
    let host = mounts.clone();
    // The panic itself is logged by the panic hook.
    let found = file_work(move || find(&layout, &*host)).await.map_err(|_| VolumeError::Ended)?;
    let found = found.map_err(|error| VolumeError::Look(error.into()))?;
    unmount_all(found, uid, threads, mounts).await?;
    let (root, uid, host) = (root.to_owned(), uid.clone(), mounts.clone());
    file_work(move || apply::tear_down(&root, &uid, &*host)).await.unwrap_or(Err(VolumeError::Ended))
}
