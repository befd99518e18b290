//! Upstream's file beside a mount, `vol_data.json`: which volume that is. A wire format, read by a stock kubelet that takes over.
//! hostlet reads it where it has no record of its own. Blocking.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use hostlet_host::is_missing;

use crate::VolumeId;

/// Its name.
pub(super) const FILE: &str = "vol_data.json";

/// The keys of the file (upstream `volDataKey`).
pub(super) const SPEC_NAME: &str = "specVolID";
pub(super) const HANDLE: &str = "volumeHandle";
pub(super) const DRIVER: &str = "driverName";
pub(super) const NODE: &str = "nodeName";
pub(super) const ATTACHMENT: &str = "attachmentID";
pub(super) const LIFECYCLE: &str = "volumeLifecycleMode";
/// The lifecycle of a volume that only lives in a pod.
pub(super) const EPHEMERAL: &str = "Ephemeral";
pub(super) const SE_LINUX: &str = "seLinuxMountContext";

/// The mode of directories, as upstream's.
const DIR_MODE: u32 = 0o750;

/// The content.
pub(super) type VolData = BTreeMap<String, String>;

/// The content for a staged volume.
pub(super) fn of_staged(id: &VolumeId, se_linux_label: Option<&str>) -> VolData {
    let pairs = [(HANDLE, Some(id.handle.as_str())), (DRIVER, Some(&id.driver)), (SE_LINUX, se_linux_label)];
    pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect()
}

/// Creates the directory and the file in it, which is never seen half written. It is not synced: after a power cut nothing of what it
/// names is mounted.
pub(super) fn write(dir: &Path, data: &VolData) -> io::Result<()> {
    make_dir(dir)?;
    let mut text = serde_json::to_vec(data)?;
    text.push(b'\n');
    let new = dir.join(format!("{FILE}.new"));
    fs::write(&new, text)?;
    fs::rename(new, dir.join(FILE))
}

/// Creates a directory and those above it.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)
}

/// Reads the file in a directory; `None` if there is none, or it is damaged.
pub(super) fn read(dir: &Path) -> Option<VolData> {
    let path = dir.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if is_missing(&error) => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read which volume this is");
            return None;
        }
    };
    let data = serde_json::from_slice(&text);
    if let Err(error) = &data {
        tracing::warn!(path = %path.display(), %error, "damaged: it should say which volume this is");
    }
    data.ok()
}

/// The volume that it names.
pub(super) fn id(data: &VolData) -> Option<VolumeId> {
    let value = |key| data.get(key).filter(|value| !value.is_empty()).cloned();
    Some(VolumeId { driver: value(DRIVER)?, handle: value(HANDLE)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_staged_volume_equals_the_stock_kubelets() {
        let dir = tempfile::tempdir().unwrap();
        let id_1 = VolumeId { driver: "csi.example.com".to_owned(), handle: "vol-1".to_owned() };
        let at = dir.path().join("a/b");
        write(&at, &of_staged(&id_1, None)).unwrap();
        let text = fs::read_to_string(at.join(FILE)).unwrap();
        assert_eq!(text, "{\"driverName\":\"csi.example.com\",\"volumeHandle\":\"vol-1\"}\n");
        assert_eq!(read(&at).as_ref().and_then(id), Some(id_1));
        assert_eq!(fs::read_dir(&at).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        for text in ["", "{", "[]", "{\"driverName\": 7}"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert_eq!(read(dir.path()), None, "{text}");
        }
        fs::write(dir.path().join(FILE), "{\"driverName\":\"\",\"volumeHandle\":\"v\"}").unwrap();
        assert_eq!(read(dir.path()).as_ref().and_then(id), None);
    }
}
