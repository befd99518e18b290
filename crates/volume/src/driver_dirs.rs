//! What is left of the volumes of drivers in a pod's directory once they are released, or where nobody can release them. Removes only what
//! is not mounted and has no content; the rest is reported with the driver's name. Blocking.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use hostlet_base::json;
use hostlet_host::{MountTable, Mounts, real_path, remove_mount_point};
use serde::Deserialize;

use super::actual::{entries, failed};
use super::error::{HostError, VolumeError};
use super::kinds::csi::DIRECTORY;
use super::layout::{PodLayout, plugin_devices};

/// Upstream's file about a volume, beside its mount point.
const DATA_FILE: &str = "vol_data.json";

/// The directory with that file of a block device.
const DATA: &str = "data";

/// The mount point.
const MOUNT: &str = "mount";

/// What upstream's file says of a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Recorded {
    driver_name: String,
}

/// Removes the directories of volumes of drivers that are not published any more. `root` is the daemon's directory.
///
/// # Errors
/// A volume is still published: something is mounted there, there is content, or there is a device. Nothing of it was removed.
pub(super) fn clear(root: &Path, layout: &PodLayout, mounts: &dyn Mounts) -> Result<(), VolumeError> {
    let (dir, devices) = (layout.volumes(DIRECTORY), layout.devices(DIRECTORY));
    let volumes = entries(&dir).map_err(VolumeError::Look)?;
    let table = if volumes.is_empty() { Ok(MountTable::default()) } else { mounts.table() };
    let table = table.map_err(|error| VolumeError::Look(error.into()))?;
    let volumes = volumes.into_iter().map(|entry| {
        let volume = dir.join(&entry);
        let done = is_bare(&volume, &table).and_then(|is_bare| match is_bare {
            true => remove(&volume),
            false => Err(of_driver(&volume, &volume)),
        });
        (entry, done)
    });
    let links = entries(&devices).map_err(VolumeError::Look)?.into_iter().map(|entry| {
        let link = devices.join(&entry);
        let data = plugin_devices(root, DIRECTORY).join(&entry).join(DATA);
        // A link to what is gone.
        let done = match fs::metadata(&link) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::remove_file(&link).map_err(failed("remove", &link))
            }
            Ok(_) | Err(_) => Err(of_driver(&link, &data)),
        };
        (entry, done)
    });
    let mut result = Ok(());
    for (entry, done) in volumes.chain(links) {
        let volume = entry.to_string_lossy().into_owned();
        result = result.and(done.map_err(|source| VolumeError::TearDown { volume, source }));
    }
    result
}

/// Whether nothing is mounted there, and nothing is in the mount point.
fn is_bare(volume: &Path, table: &MountTable) -> Result<bool, HostError> {
    if table.within(&real_path(volume)).next().is_some() {
        return Ok(false);
    }
    let point = volume.join(MOUNT);
    match fs::symlink_metadata(&point) {
        Ok(metadata) if metadata.is_dir() => Ok(entries(&point)?.is_empty()),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(failed("look at", &point)(error)),
    }
}

fn remove(volume: &Path) -> Result<(), HostError> {
    remove_mount_point(&volume.join(MOUNT))?;
    let file = volume.join(DATA_FILE);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("remove", &file)(error)),
        Ok(()) | Err(_) => {}
    }
    Ok(remove_mount_point(volume)?)
}

fn of_driver(path: &Path, data: &Path) -> HostError {
    HostError::OfDriver { path: path.to_owned(), driver: driver_of(data) }
}

/// The driver by upstream's file; a placeholder if that is gone or damaged.
fn driver_of(dir: &Path) -> String {
    let recorded = fs::read(dir.join(DATA_FILE)).ok().and_then(|text| json::from_slice(&text).ok());
    let Recorded { driver_name } = recorded.unwrap_or_default();
    if driver_name.is_empty() {
        "(unknown: its vol_data.json is gone or damaged)".to_owned()
    } else {
        driver_name
    }
}
