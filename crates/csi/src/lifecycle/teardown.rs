//! Unpublishes and unstages a volume. A directory is removed only once nothing is mounted on it, and only if it is empty. Never unmounts:
//! that is the driver's task.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::{PodUid, error_chain};
use hostlet_host::{SysError, file_work, is_missing, remove_mount_point};
use tokio::task::JoinError;

use super::layout::DEVICES;
use super::plan::{Due, Key};
use super::publishing::is_mounted;
use super::record::Done;
use super::vol_data;
use super::worker::{NoDriver, VolumeWorker};
use crate::{CallError, ReleaseError, VolumePhase};

/// Why a volume was not unpublished or unstaged.
#[derive(Debug, thiserror::Error)]
pub(super) enum TeardownError {
    /// The driver is not registered.
    #[error("kubernetes.io/csi: {what}: {error}")]
    NoDriver {
        /// Upstream's beginning of the text.
        what: &'static str,
        /// Which driver.
        error: NoDriver,
    },
    /// The call failed.
    #[error("kubernetes.io/csi: {what} failed: {error}")]
    Call {
        /// Upstream's name of the step.
        what: &'static str,
        /// What the driver said.
        error: CallError,
    },
    /// The driver reported success, and a mount remains.
    #[error("the driver reported success, and something is still mounted at {}", path.display())]
    Mounted {
        /// Where.
        path: PathBuf,
    },
    /// The remaining directories cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// Which.
        path: PathBuf,
        /// Why.
        source: RemoveError,
    },
}

/// Why a directory stays.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoveError {
    /// The host's mounts cannot be read, or a mount point is not empty.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The file system says no.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The work ended early.
    #[error(transparent)]
    Ended(#[from] JoinError),
}

impl VolumeWorker {
    /// Drops a pod's requests, and unpublishes all its publications. Returns the first error.
    pub(super) async fn release(&mut self, pod: &PodUid) -> Result<(), ReleaseError> {
        self.desired.retain(|key, _| key.0 != *pod);
        let own = self.record.publications.iter().filter(|own| own.pod == pod.as_str());
        let keys: Vec<Key> = own.map(|own| (pod.clone(), own.spec_name.clone())).collect();
        let mut result = Ok(());
        for key in keys {
            let done = self.unpublish(&key).await;
            self.last_error = done.as_ref().err().map(|error| error_chain(error));
            result = result.and(
                done.map_err(|error| ReleaseError::Volume { volume: key.1, cause: error_chain(&error) }),
            );
        }
        result
    }

    /// Unpublishes the volume for a pod.
    pub(super) async fn unpublish(&mut self, key: &Key) -> Result<(), TeardownError> {
        let what = "Unmounter.TearDownAt failed to get CSI client";
        let service = self.service().map_err(|error| TeardownError::NoDriver { what, error })?;
        // A publication without a target was never made.
        if let Some(target) = self.target(key) {
            // The call may take effect even if it fails.
            self.record.set_published(&key.0, &key.1, Done::Maybe);
            self.save();
            self.enter(VolumePhase::Unpublishing);
            let done = service.unpublish(&self.record.id.handle, &target).await;
            done.map_err(|error| TeardownError::Call { what: "Unmounter.TearDownAt", error })?;
            self.remove(&target).await?;
        }
        self.record.set_published(&key.0, &key.1, Done::No);
        self.save();
        // Another pod may wait for this one to release the volume.
        self.changed();
        self.unstage = Due::Now;
        Ok(())
    }

    /// Unstages the volume.
    pub(super) async fn unstage(&mut self) -> Result<(), TeardownError> {
        let what = "attacher.UnmountDevice failed to create newCsiDriverClient";
        let service = self.service().map_err(|error| TeardownError::NoDriver { what, error })?;
        let staging = self.staging();
        let capabilities = service.capabilities().await;
        let capabilities =
            capabilities.map_err(|error| TeardownError::Call { what: "attacher.UnmountDevice", error })?;
        if capabilities.stage {
            self.record.staged = Done::Maybe;
            self.save();
            self.enter(VolumePhase::Unstaging);
            let done = service.unstage(&self.record.id.handle, &staging).await;
            done.map_err(|error| TeardownError::Call { what: "attacher.UnmountDevice", error })?;
        }
        self.remove(&staging).await?;
        self.record.staged = Done::No;
        self.context = None;
        self.save();
        Ok(())
    }

    /// Removes a mount point that a driver left, upstream's file and their directory, once nothing is mounted.
    async fn remove(&self, mount: &Path) -> Result<(), TeardownError> {
        let (mounts, mount) = (self.shared.settings.mounts.clone(), mount.to_owned());
        let is_block = self.record.is_block;
        let path = mount.clone();
        let removed = file_work(move || {
            let failed = |source| TeardownError::Remove { path: mount.clone(), source };
            let table = mounts.table().map_err(|error| failed(error.into()))?;
            if is_mounted(&table, &mount) {
                return Err(TeardownError::Mounted { path: mount.clone() });
            }
            if is_block { remove_device(&mount) } else { remove_beside(&mount) }.map_err(failed)
        });
        removed.await.unwrap_or_else(|error| Err(TeardownError::Remove { path, source: error.into() }))
    }

    /// The same after a call that changed nothing. What remains does no harm.
    pub(super) async fn discard(&self, mount: &Path) {
        if let Err(error) = self.remove(mount).await {
            let error = error_chain(&error);
            tracing::debug!(error, "a directory of a volume stays");
        }
    }
}

/// Removes an empty mount point, upstream's file beside it, and their directory.
fn remove_beside(mount: &Path) -> Result<(), RemoveError> {
    remove_mount_point(mount)?;
    let Some(dir) = mount.parent() else { return Ok(()) };
    unless_missing(fs::remove_file(dir.join(vol_data::FILE)))?;
    Ok(unless_missing(fs::remove_dir(dir))?)
}

/// Removes the node of a block device, its staging directory or upstream's file, and the directories above that are empty.
fn remove_device(path: &Path) -> Result<(), RemoveError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => unless_missing(fs::remove_dir(path))?,
        Ok(_) => unless_missing(fs::remove_file(path))?,
        Err(error) => unless_missing(Err(error))?,
    }
    for dir in path.ancestors().skip(1).take_while(|dir| !dir.ends_with(DEVICES)) {
        match fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
            Err(error) => unless_missing(Err(error))?,
        }
    }
    Ok(())
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if is_missing(&error) => Ok(()),
        done => done,
    }
}
