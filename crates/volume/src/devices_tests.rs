//! Block devices at upstream's places, for each pod, and gone with it. The fake mounts need no rights, and the device is only looked at.

use hostlet_host::testing::skipped;

use super::*;
use crate::kinds::{csi, local_volume};
use crate::testing::{Host, UID, block_device};

fn device(path: &Path) -> BlockDevice {
    BlockDevice {
        directory: local_volume::DIRECTORY,
        name: "pv-1".to_owned(),
        device: path.to_owned(),
        is_on_host: true,
        read_only: false,
        is_exclusive: false,
        claim: None,
    }
}

impl Host {
    fn of(&self, uid: &str) -> PodLayout {
        PodLayout::new(self.root.path(), &uid.into()).unwrap()
    }

    fn put(&self, device: &BlockDevice, uid: &str) -> Result<(), String> {
        let done = device.set_up(self.root.path(), &self.of(uid), &self.mounts);
        done.map_err(|problem| problem.to_string())
    }

    fn is_mapped(&self, device: &BlockDevice, uid: &str) -> bool {
        device.is_mapped(self.root.path(), &self.of(uid), &self.mounts.table().unwrap())
    }

    fn clear_devices(&self, uid: &str, directory: KindDirectory) -> Result<(), VolumeError> {
        clear(self.root.path(), &self.of(uid), directory, &self.mounts)
    }
}

#[test]
fn a_device_is_at_upstreams_places_until_its_pod_ends() {
    let Some(path) = block_device() else { return skipped("needs a block device in /dev") };
    let (host, device) = (Host::new(), device(&path));
    host.put(&device, UID).unwrap();
    let link = host.at("volumeDevices/kubernetes.io~local-volume/pv-1");
    assert_eq!((device.link(&host.of(UID)), fs::read_link(&link).unwrap()), (link.clone(), path.clone()));
    let maps = host.root.path().join("plugins/kubernetes.io/local-volume/volumeDevices/pv-1");
    assert_eq!(host.mounts.points(), [maps.canonicalize().unwrap().join(UID)]);
    assert_eq!(host.mounts.calls(), [format!("-o bind -- {} {}", path.display(), maps.join(UID).display())]);
    assert!(host.is_mapped(&device, UID) && !host.is_mapped(&device, "uid-2"));
    // Done again, and for another pod.
    host.put(&device, UID).unwrap();
    host.put(&device, "uid-2").unwrap();
    assert_eq!(host.mounts.points().len(), 2);
    // After a reboot, or an interruption, it is completed.
    fs::remove_file(&link).unwrap();
    assert!(!host.is_mapped(&device, UID));
    host.put(&device, UID).unwrap();
    assert!(host.is_mapped(&device, UID));
    host.mounts.set_busy(true);
    host.clear_devices(UID, local_volume::DIRECTORY).unwrap_err();
    assert!(link.symlink_metadata().is_ok(), "it is still found");
    host.mounts.set_busy(false);
    for uid in [UID, UID, "uid-2"] {
        host.clear_devices(uid, local_volume::DIRECTORY).unwrap();
    }
    assert!(host.mounts.points().is_empty() && link.symlink_metadata().is_err() && !maps.exists());
}

#[test]
fn what_is_no_device_and_what_another_pod_has_is_refused() {
    let Some(path) = block_device() else { return skipped("needs a block device in /dev") };
    let host = Host::new();
    let of = |path: &Path| host.put(&device(path), UID).unwrap_err();
    let begin = "MapVolume.MapBlockVolume failed for volume \"pv-1\" : ";
    assert_eq!(of(Path::new("/none")), format!("{begin}path \"/none\" does not exist"));
    assert_eq!(of(Path::new("/dev/null")), format!("{begin}/dev/null is not a block device"));
    host.put(&device(&path), "uid-2").unwrap();
    let exclusive = BlockDevice { is_exclusive: true, ..device(&path) };
    let text = host.put(&exclusive, UID).unwrap_err();
    assert!(text.ends_with("is already in use by another pod"), "{text}");
    host.put(&exclusive, "uid-2").unwrap();
}

#[test]
fn what_a_driver_published_is_taken_as_it_is() {
    let host = Host::new();
    let published = host.root.path().join("published");
    fs::write(&published, "").unwrap();
    let device = BlockDevice { directory: csi::DIRECTORY, is_on_host: false, ..device(&published) };
    host.put(&device, UID).unwrap();
    let map = host.root.path().join("plugins/kubernetes.io/csi/volumeDevices/pv-1/dev").join(UID);
    assert_eq!(host.mounts.points(), [map.canonicalize().unwrap()]);
    assert!(host.at("volumeDevices/kubernetes.io~csi/pv-1").symlink_metadata().is_ok());
    host.clear_devices(UID, csi::DIRECTORY).unwrap();
    assert!(host.mounts.points().is_empty() && published.exists());
}
