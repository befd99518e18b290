//! What an earlier daemon left: the rows of the store, and for volumes without a row upstream's files, also those of a stock kubelet.
//! Reads only.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hostlet_host::{is_missing, pods_dir};
use hostlet_store::{Store, Table};

use super::layout::{self, DEVICES, POD_DIRECTORY};
use super::record::{Done, Publication, Record};
use super::vol_data::{self, EPHEMERAL, LIFECYCLE, SPEC_NAME, VolData};
use crate::VolumeId;

/// Volumes found in upstream's files.
#[derive(Debug, Default)]
pub struct VolumesOnDisk(Vec<Found>);

#[derive(Debug)]
struct Found {
    id: VolumeId,
    spec_name: String,
    is_block: bool,
    is_staged: bool,
    /// Whether a controller attaches it. Assumed until a pod requests the volume, so that nobody detaches it.
    is_attached: bool,
    /// The pod for which it is published.
    pod: Option<String>,
}

/// The volumes in the store, as of this boot.
pub(crate) fn stored(store: &Store, boot: &str) -> BTreeMap<VolumeId, Record> {
    let rows = store.all::<Record>(Table::CsiVolumes).into_iter();
    rows.map(|(_, record)| (record.id.clone(), record.in_boot(boot))).collect()
}

/// Adds the volumes on disk that the store does not have.
pub(crate) fn merged(
    mut records: BTreeMap<VolumeId, Record>,
    found: VolumesOnDisk,
    boot: &str,
) -> BTreeMap<VolumeId, Record> {
    for Found { id, spec_name, is_block, is_staged, is_attached, pod } in found.0 {
        let record = records.entry(id.clone()).or_insert_with(|| Record {
            id,
            spec_name: spec_name.clone(),
            is_block,
            is_attached,
            staged: Done::No,
            boot: boot.to_owned(),
            publications: Vec::new(),
        });
        if is_staged && record.staged == Done::No {
            record.staged = Done::Maybe;
        }
        if let Some(pod) = pod
            && !record.publications.iter().any(|own| own.pod == pod && own.spec_name == spec_name)
        {
            record.publications.push(Publication { pod, spec_name, published: Done::Maybe });
        }
    }
    records
}

/// Reads the volumes from upstream's files below the daemon's directory. Blocking.
pub fn found_on_disk(root: &Path) -> VolumesOnDisk {
    let mut found = Vec::new();
    let csi = layout::plugin_dir(root);
    for driver in names(&csi).into_iter().filter(|name| name != DEVICES) {
        for volume in names(&csi.join(&driver)) {
            let data = vol_data::read(&csi.join(&driver).join(volume));
            found.extend(data.and_then(|data| of(&data, false, true, None)));
        }
    }
    for pod in names(&pods_dir(root)) {
        let volumes = pods_dir(root).join(&pod).join("volumes").join(POD_DIRECTORY);
        for volume in names(&volumes) {
            let data = vol_data::read(&volumes.join(volume));
            found.extend(data.and_then(|data| of(&data, false, false, Some(pod.clone()))));
        }
    }
    let devices = csi.join(DEVICES);
    for spec_name in names(&devices) {
        let Some(data) = vol_data::read(&layout::device_data(root, &spec_name)) else { continue };
        let pods = names(&devices.join("publish").join(&spec_name));
        found.extend(pods.into_iter().filter_map(|pod| of(&data, true, true, Some(pod))));
        found.extend(of(&data, true, true, None));
    }
    VolumesOnDisk(found)
}

fn of(data: &VolData, is_block: bool, is_staged: bool, pod: Option<String>) -> Option<Found> {
    let id = vol_data::id(data)?;
    let spec_name = data.get(SPEC_NAME).cloned().unwrap_or_default();
    let is_attached = data.get(LIFECYCLE).is_none_or(|lifecycle| lifecycle != EPHEMERAL);
    Some(Found { id, spec_name, is_block, is_staged, is_attached, pod })
}

/// The names of the directories in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            if !is_missing(&error) {
                tracing::warn!(dir = %dir.display(), %error, "cannot look for volumes");
            }
            return Vec::new();
        }
    };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}
