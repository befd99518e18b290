//! Block devices of volumes at upstream's places: the device itself, mounted on a file in the directory of its plugin, and a link to it in
//! the pod's directory, which containers get (upstream `MapBlockVolume`). Blocking. Interrupted work is completed by the next attempt.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use hostlet_host::{MountCall, MountTable, Mounts, detach_loop_devices, real_path, remove_mount_point};

use super::actual::{entries, failed, found_at};
use super::error::{HostError, VolumeError, VolumeProblem, VolumeStep};
use super::layout::{POD_MODE, PodLayout, device_maps};
use super::model::{BlockDevice, Growable, GrowableForm, KindDirectory};
use super::path_type::Found;

/// Mode of the file on which a device is mounted.
const FILE_MODE: u32 = 0o750;

impl BlockDevice {
    /// Where containers find it.
    pub(super) fn link(&self, layout: &PodLayout) -> PathBuf {
        layout.devices(self.directory).join(&self.name)
    }

    /// How it grows with its claim, if it does.
    pub(super) fn growable(&self) -> Option<Growable> {
        Some(Growable { claim: self.claim.clone()?, path: self.device.clone(), form: GrowableForm::Device })
    }

    /// Where it is mounted for the pod.
    fn map(&self, root: &Path, layout: &PodLayout) -> PathBuf {
        device_maps(root, self.directory, &self.name).join(layout.uid())
    }

    /// Whether it is in place. `table` are the host's mounts.
    pub(super) fn is_mapped(&self, root: &Path, layout: &PodLayout, table: &MountTable) -> bool {
        is_mounted(&self.map(root, layout), table)
            && fs::read_link(self.link(layout)).is_ok_and(|target| target == real_path(&self.device))
    }

    /// Puts it in place, for a pod.
    pub(super) fn set_up(
        &self,
        root: &Path,
        layout: &PodLayout,
        mounts: &dyn Mounts,
    ) -> Result<(), VolumeProblem> {
        self.put(root, layout, mounts)
            .map_err(|error| VolumeProblem::at(VolumeStep::MapBlockVolume, &self.name, &error))
    }

    fn put(&self, root: &Path, layout: &PodLayout, mounts: &dyn Mounts) -> Result<(), HostError> {
        if self.is_on_host {
            match found_at(&self.device)? {
                Found::BlockDevice => {}
                Found::Nothing => return Err(HostError::NoPath { path: self.device.clone() }),
                Found::Directory | Found::File | Found::Socket | Found::CharDevice | Found::Other => {
                    return Err(HostError::NoDevice { path: self.device.clone() });
                }
            }
        }
        let (map, link, device) = (self.map(root, layout), self.link(layout), real_path(&self.device));
        let table = mounts.table()?;
        if self.is_exclusive && self.is_used_by_others(root, layout, &table)? {
            return Err(HostError::InUse);
        }
        // First the link, by which the device is found when the pod ends.
        make_parent(&link)?;
        if fs::read_link(&link).ok().as_ref() != Some(&device) {
            remove_link(&link)?;
            symlink(&device, &link).map_err(failed("make link", &link))?;
        }
        if is_mounted(&map, &table) {
            return Ok(());
        }
        make_parent(&map)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(FILE_MODE).open(&map);
        file.map_err(failed("make file", &map))?;
        let source = device.to_string_lossy().into_owned();
        let options = vec!["bind".to_owned()];
        Ok(mounts.mount(&MountCall { source, target: map, filesystem: None, options })?)
    }

    /// Whether another pod has it.
    fn is_used_by_others(
        &self,
        root: &Path,
        layout: &PodLayout,
        table: &MountTable,
    ) -> Result<bool, HostError> {
        let dir = device_maps(root, self.directory, &self.name);
        let others = entries(&dir)?.into_iter().filter(|pod| *pod != layout.uid());
        Ok(others.map(|pod| dir.join(pod)).any(|map| is_mounted(&map, table)))
    }
}

fn is_mounted(map: &Path, table: &MountTable) -> bool {
    let place = match (map.parent(), map.file_name()) {
        (Some(parent), Some(name)) => real_path(parent).join(name),
        (_, _) => map.to_owned(),
    };
    table.at(&place).next().is_some()
}

fn make_parent(path: &Path) -> Result<(), HostError> {
    let Some(dir) = path.parent() else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(POD_MODE).create(dir);
    made.map_err(failed("make directory", dir))
}

fn remove_link(link: &Path) -> Result<(), HostError> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", link)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Takes away all devices of one kind that a pod has, no matter which daemon put them there. Nothing is done to the devices.
pub(super) fn clear(
    root: &Path,
    layout: &PodLayout,
    directory: KindDirectory,
    mounts: &dyn Mounts,
) -> Result<(), VolumeError> {
    let links = entries(&layout.devices(directory)).map_err(VolumeError::Look)?;
    let mut result = Ok(());
    for name in links {
        let volume = name.to_string_lossy().into_owned();
        let link = layout.devices(directory).join(&name);
        let maps = device_maps(root, directory, &volume);
        let done = unmap(&maps, layout.uid(), mounts).and_then(|()| remove_link(&link));
        result = result.and(done.map_err(|source| VolumeError::TearDown { volume, source }));
    }
    result
}

fn unmap(maps: &Path, uid: &str, mounts: &dyn Mounts) -> Result<(), HostError> {
    let map = maps.join(uid);
    if fs::symlink_metadata(&map).is_err() {
        return Ok(());
    }
    let place = real_path(maps).join(uid);
    // A stock kubelet's, which keeps the file busy.
    detach_loop_devices(&place)?;
    for _ in 0..mounts.table()?.at(&place).count() {
        mounts.unmount(&map)?;
    }
    remove_mount_point(&map)?;
    // Other pods may have the device.
    let _ = fs::remove_dir(maps);
    Ok(())
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
