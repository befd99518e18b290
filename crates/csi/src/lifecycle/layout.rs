//! Paths of volumes of CSI drivers on the host. A wire format: a stock kubelet before or after hostlet uses the same. Pure.

use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::PodDirs;

use crate::VolumeId;

/// The directory of the plugin among those of others, as upstream escapes its name.
pub(super) const POD_DIRECTORY: &str = "kubernetes.io~csi";
/// Where a volume is mounted in its directory of a pod.
const MOUNT: &str = "mount";
/// Where a volume is staged in its directory of a driver.
const GLOBAL_MOUNT: &str = "globalmount";
/// The directory of block devices beside those of drivers, which no driver can be named like.
pub(super) const DEVICES: &str = "volumeDevices";

/// The directory of all CSI volumes in the daemon's.
pub(super) fn plugin_dir(root: &Path) -> PathBuf {
    root.join("plugins/kubernetes.io/csi")
}

/// Where a volume is staged as a filesystem.
pub(super) fn staging(root: &Path, id: &VolumeId) -> PathBuf {
    plugin_dir(root).join(&id.driver).join(id.directory_name()).join(GLOBAL_MOUNT)
}

/// Where a volume is staged as a block device (upstream `getStagingPath`).
pub(super) fn device_staging(root: &Path, spec_name: &str) -> PathBuf {
    plugin_dir(root).join(DEVICES).join("staging").join(escaped(spec_name))
}

/// Where a volume is published for a pod as a filesystem; `None` if the UID is no name of a directory.
pub(super) fn target(root: &Path, pod: &PodUid, spec_name: &str) -> Option<PathBuf> {
    Some(pod_volumes(root, pod)?.join(escaped(spec_name)).join(MOUNT))
}

/// The directory of a pod's CSI volumes.
pub(super) fn pod_volumes(root: &Path, pod: &PodUid) -> Option<PathBuf> {
    Some(PodDirs::new(root, pod)?.volumes().join(POD_DIRECTORY))
}

/// Where a volume is published for a pod as a block device (upstream `getPublishPath`).
pub(super) fn device_target(root: &Path, pod: &PodUid, spec_name: &str) -> Option<PathBuf> {
    let dir = plugin_dir(root).join(DEVICES).join("publish").join(escaped(spec_name));
    pod.is_file_name().then(|| dir.join(pod.as_str()))
}

/// Where upstream's file about a block device is (upstream `getVolumeDeviceDataDir`).
pub(super) fn device_data(root: &Path, spec_name: &str) -> PathBuf {
    plugin_dir(root).join(DEVICES).join(escaped(spec_name)).join("data")
}

/// A name as upstream escapes it (`EscapeQualifiedName`).
fn escaped(spec_name: &str) -> String {
    spec_name.replace('/', "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_equal_the_stock_kubelets() {
        let root = Path::new("/var/lib/kubelet");
        let id = VolumeId { driver: "csi.example.com".to_owned(), handle: "vol-1".to_owned() };
        let csi = "/var/lib/kubelet/plugins/kubernetes.io/csi";
        let sha = id.directory_name();
        assert_eq!(staging(root, &id), Path::new(&format!("{csi}/csi.example.com/{sha}/globalmount")));
        let pod = "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pv-1/mount";
        assert_eq!(target(root, &"u1".into(), "pv-1").unwrap(), Path::new(pod));
        assert_eq!(target(root, &"../u1".into(), "pv-1"), None);
        assert_eq!(device_staging(root, "pv-1"), Path::new(&format!("{csi}/volumeDevices/staging/pv-1")));
        let published = format!("{csi}/volumeDevices/publish/pv-1/u1");
        assert_eq!(device_target(root, &"u1".into(), "pv-1").unwrap(), Path::new(&published));
        assert_eq!(device_data(root, "pv-1"), Path::new(&format!("{csi}/volumeDevices/pv-1/data")));
    }
}
