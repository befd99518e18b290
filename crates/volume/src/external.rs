//! Volumes that are mounts of what outlives the pod: a directory or a device of this host, or an export of a server. Blocking, possibly
//! for long. Interrupted work is completed by the next attempt. Never deletes anything of theirs.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use hostlet_base::error_chain;
use hostlet_host::{
    Disks, GroupChange, MountCall, MountTable, Mounts, PathError, pods_dir, prepare_disk, real_path,
    remove_mount_point, set_group_of_tree,
};

use super::actual::{entries, failed, found_at};
use super::error::{HostError, VolumeProblem, VolumeStep};
use super::execute::{mark, unmark};
use super::layout::{POD_MODE, PodLayout, device_mounts};
use super::model::{External, Growable, GrowableForm, KindDirectory};
use super::path_type::Found;
use super::threads::DeviceLocks;

/// With what volumes are mounted.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) mounts: &'a dyn Mounts,
    pub(super) disks: &'a dyn Disks,
    pub(super) devices: &'a DeviceLocks,
}

/// Unmounts the filesystems of devices that no pod has any more, whose last it was. One that is in use otherwise, or was not unmounted by
/// an earlier daemon, is tried again when another pod ends: as upstream, no pod waits for that.
pub(super) fn release_devices(
    root: &Path,
    directory: KindDirectory,
    mounts: &dyn Mounts,
    devices: &DeviceLocks,
) -> Result<(), HostError> {
    for volume in entries(&device_mounts(root, directory))? {
        let volume = volume.to_string_lossy();
        if let Err(error) = devices.with(&volume, || release_device(root, directory, &volume, mounts)) {
            let error = error_chain(&error);
            tracing::warn!(%volume, error, "cannot unmount the filesystem of a device that no pod has any more");
        }
    }
    Ok(())
}

fn release_device(
    root: &Path,
    directory: KindDirectory,
    volume: &str,
    mounts: &dyn Mounts,
) -> Result<(), HostError> {
    let table = mounts.table()?;
    if is_used(root, directory, volume, &table) {
        return Ok(());
    }
    let place = real_path(&device_mounts(root, directory).join(volume));
    (0..table.at(&place).count()).try_for_each(|_| mounts.unmount(&place))?;
    Ok(remove_mount_point(&place)?)
}

/// Whether a pod has a volume mounted.
fn is_used(root: &Path, directory: KindDirectory, volume: &str, table: &MountTable) -> bool {
    let pods = real_path(&pods_dir(root));
    let inside = Path::new("volumes").join(directory.name()).join(volume);
    table.within(&pods).any(|mount| {
        let mut parts = mount.point.strip_prefix(&pods).unwrap_or(Path::new("")).components();
        parts.next().is_some() && parts.as_path() == inside
    })
}

/// Whether the path of a local volume is a block device, and not a directory.
pub(super) fn is_block_device(path: &Path) -> Result<bool, HostError> {
    match found_at(path)? {
        Found::Directory => Ok(false),
        Found::BlockDevice => Ok(true),
        Found::Nothing => Err(HostError::NoPath { path: path.to_owned() }),
        Found::File | Found::Socket | Found::CharDevice | Found::Other => {
            Err(HostError::NeitherDirectoryNorDevice)
        }
    }
}

impl External {
    /// Whether it is a path of this host.
    pub(super) fn is_on_host(&self) -> bool {
        self.directory.filesystem().is_none()
    }

    /// Where it is on the host.
    pub(super) fn dir(&self, layout: &PodLayout) -> PathBuf {
        layout.volume(self.directory, &self.name)
    }

    /// Whether it is set up. Does not access what is mounted.
    pub(super) fn is_ready(&self, layout: &PodLayout, table: &MountTable) -> bool {
        let is_marked = || layout.meta(self.directory, &self.name).join("ready").exists();
        self.is_mounted(layout, table) && is_marked()
    }

    fn is_mounted(&self, layout: &PodLayout, table: &MountTable) -> bool {
        let dir = real_path(&layout.volumes(self.directory)).join(&self.name);
        table.at(&dir).next().is_some()
    }

    /// Sets it up. Returns a warning if it is mounted now, but not with the group that was requested.
    pub(super) fn set_up(
        &self,
        root: &Path,
        layout: &PodLayout,
        host: Means<'_>,
    ) -> Result<Option<String>, VolumeProblem> {
        let problem = |step, error: HostError| VolumeProblem::at(step, &self.name, &error);
        let is_device = self.check_source().map_err(|error| problem(VolumeStep::NewMounter, error))?;
        if !is_device {
            let source = Path::new(&self.source);
            return self
                .mount(root, layout, source, host.mounts)
                .map_err(|error| problem(VolumeStep::SetUp, error));
        }
        let source = device_mounts(root, self.directory).join(&self.name);
        host.devices.with(&self.name, || {
            self.mount_device(&source, host).map_err(|error| problem(VolumeStep::MountDevice, error))?;
            self.mount(root, layout, &source, host.mounts).map_err(|error| problem(VolumeStep::SetUp, error))
        })
    }

    /// Mounts the filesystem of the device, for all pods. Makes it if there is nothing on the device.
    fn mount_device(&self, target: &Path, host: Means<'_>) -> Result<(), HostError> {
        if host.mounts.table()?.at(&real_path(target)).next().is_some() {
            return Ok(());
        }
        prepare_disk(host.disks, Path::new(&self.source), &self.fs_type, self.read_only)?;
        let made = DirBuilder::new().recursive(true).mode(POD_MODE).create(target);
        made.map_err(failed("make directory", target))?;
        let mut options = self.all_options();
        options.push("defaults".to_owned());
        let (source, filesystem) = (self.source.clone(), Some(self.fs_type.clone().into()));
        let call = MountCall { source, target: target.to_owned(), filesystem, options };
        host.mounts.mount(&call).map_err(|error| {
            // Only an empty directory that nothing is mounted on.
            let _ = fs::remove_dir(target);
            error.into()
        })
    }

    /// The problem if setting it up takes too long.
    pub(super) fn delayed(&self, layout: &PodLayout, table: &MountTable, error: PathError) -> VolumeProblem {
        let is_slow = matches!(error, PathError::Stuck { .. });
        let is_owning = is_slow && self.group_to_set().is_some() && self.is_mounted(layout, table);
        let error =
            if is_owning { HostError::Owning { path: self.dir(layout) } } else { HostError::Path(error) };
        VolumeProblem::new(&self.name, &error)
    }

    /// Checks what is mounted, if it is a path of this host. Returns whether that is a block device.
    fn check_source(&self) -> Result<bool, HostError> {
        if self.is_on_host() { is_block_device(Path::new(&self.source)) } else { Ok(false) }
    }

    /// How it grows with its claim, if it does.
    pub(super) fn growable(&self, layout: &PodLayout) -> Option<Growable> {
        let (at, ready) = (self.dir(layout), layout.meta(self.directory, &self.name));
        let form = GrowableForm::Mounted { at, ready };
        Some(Growable { claim: self.claim.clone()?, path: self.source.clone().into(), form })
    }

    /// Mounts `source`, a directory of this host or an export, for the pod.
    fn mount(
        &self,
        root: &Path,
        layout: &PodLayout,
        source: &Path,
        mounts: &dyn Mounts,
    ) -> Result<Option<String>, HostError> {
        let table = mounts.table()?;
        let is_shared = self.is_used_by_others(root, layout, &table);
        if self.is_exclusive && is_shared {
            return Err(HostError::InUse);
        }
        let (dir, meta) = (self.dir(layout), layout.meta(self.directory, &self.name));
        let mut warning = None;
        if !self.is_mounted(layout, &table) {
            if is_shared {
                warning = self.group_warning(source)?;
            }
            // A marker of an earlier boot.
            unmark(&meta)?;
            let made = DirBuilder::new().recursive(true).mode(POD_MODE).create(&dir);
            made.map_err(failed("make directory", &dir))?;
            if let Err(error) = mounts.mount(&self.call(source, dir.clone())) {
                // Only an empty directory that nothing is mounted on.
                let _ = fs::remove_dir(&dir);
                return Err(error.into());
            }
        }
        if let Some(call) = self.restriction(source, dir.clone()) {
            mounts.mount(&call)?;
        }
        // A group that others rely on is not changed, as upstream.
        if let (Some((group, change)), false) = (self.group_to_set(), is_shared) {
            set_group_of_tree(&dir, group, change)?;
        }
        mark(&meta)?;
        Ok(warning)
    }

    /// The group that its files are given to.
    fn group_to_set(&self) -> Option<(u32, GroupChange)> {
        self.group.filter(|_| !self.read_only)
    }

    /// Upstream's warning about a volume that other pods have mounted already with another group.
    fn group_warning(&self, source: &Path) -> Result<Option<String>, HostError> {
        let Some((group, _)) = self.group else { return Ok(None) };
        let existing = fs::metadata(source).map_err(failed("look at", source))?.gid();
        let name = &self.name;
        Ok((existing != group).then(|| {
            format!(
                "The requested fsGroup is {group}, but the volume {name} has GID {existing}. The volume may not be shareable."
            )
        }))
    }

    /// Whether the volume is mounted for another pod.
    fn is_used_by_others(&self, root: &Path, layout: &PodLayout, table: &MountTable) -> bool {
        let pods = real_path(&pods_dir(root));
        let volume = layout.volume(self.directory, &self.name);
        let inside = volume.strip_prefix(layout.dirs().path()).unwrap_or(&volume);
        let own = real_path(&layout.volumes(self.directory)).join(&self.name);
        table.within(&pods).filter(|mount| mount.point != own).any(|mount| {
            let mut parts = mount.point.strip_prefix(&pods).unwrap_or(Path::new("")).components();
            parts.next().is_some() && parts.as_path() == inside
        })
    }

    fn call(&self, source: &Path, target: PathBuf) -> MountCall {
        let filesystem = self.directory.filesystem().map(Into::into);
        let options = if filesystem.is_some() { self.all_options() } else { vec!["bind".to_owned()] };
        MountCall { source: source.to_string_lossy().into_owned(), target, filesystem, options }
    }

    /// The call that gives a directory of this host its options: a new bind mount has those of its source.
    fn restriction(&self, source: &Path, target: PathBuf) -> Option<MountCall> {
        let options = self.all_options();
        if !self.is_on_host() || options.is_empty() {
            return None;
        }
        let options = ["bind", "remount"].map(str::to_owned).into_iter().chain(options).collect();
        let source = source.to_string_lossy().into_owned();
        Some(MountCall { source, target, filesystem: None, options })
    }

    fn all_options(&self) -> Vec<String> {
        let mut options = self.options.clone();
        if self.read_only {
            options.push("ro".to_owned());
        }
        options.sort_unstable();
        options.dedup();
        options
    }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "real_device_tests.rs"]
mod real_device_tests;
