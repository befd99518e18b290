//! Local volumes on a real device: a loop device, in a mount namespace of the test's own. Needs root.

use std::os::unix::fs::FileTypeExt;
use std::process::Command;

use hostlet_host::HostDisks;
use hostlet_host::testing::{in_mount_namespace, skipped};

use super::*;
use crate::apply::tear_down;
use crate::devices;
use crate::kinds::local_volume;
use crate::model::BlockDevice;
use crate::testing::{Disk, UID};

#[test]
fn the_filesystem_of_a_device_keeps_what_pods_write() {
    in_mount_namespace(|dir, mounts| {
        let Some(disk) = Disk::new(dir) else { return skipped("needs loop devices and mkfs.ext4") };
        let (root, locks) = (dir.join("root"), DeviceLocks::default());
        let layout = |uid: &str| PodLayout::new(&root, &uid.into()).unwrap();
        let volume = External {
            directory: local_volume::DIRECTORY,
            name: "pv-1".to_owned(),
            source: disk.path().to_str().unwrap().to_owned(),
            unit: disk.path().to_owned(),
            options: vec!["noatime".to_owned()],
            read_only: false,
            group: Some((3000, GroupChange::Always)),
            is_exclusive: false,
            fs_type: "ext4".to_owned(),
            claim: None,
        };
        let means = Means { mounts, disks: &HostDisks, devices: &locks };
        let set_up = |uid: &str| volume.set_up(&root, &layout(uid), means).unwrap();
        let end = |uid: &str| {
            tear_down(&root, &uid.into(), mounts).unwrap();
            release_devices(&root, local_volume::DIRECTORY, mounts, &locks).unwrap();
        };
        let file = |uid: &str| volume.dir(&layout(uid)).join("file");
        set_up(UID);
        fs::write(file(UID), "precious").unwrap();
        assert_eq!(fs::metadata(volume.dir(&layout(UID))).unwrap().gid(), 3000);
        set_up("uid-2");
        assert_eq!(fs::read_to_string(file("uid-2")).unwrap(), "precious");
        end(UID);
        let shared = root.join("plugins/kubernetes.io/local-volume/mounts/pv-1");
        assert!(shared.join("file").exists());
        end("uid-2");
        assert!(!shared.exists());
        assert_eq!(mounts.table().unwrap().within(dir).count(), 0);
        set_up("uid-3");
        assert_eq!(fs::read_to_string(file("uid-3")).unwrap(), "precious");
        end("uid-3");
        // The same device as a device.
        let device = BlockDevice {
            directory: local_volume::DIRECTORY,
            name: "pv-2".to_owned(),
            device: disk.path().to_owned(),
            is_on_host: true,
            read_only: false,
            is_exclusive: false,
            claim: None,
        };
        device.set_up(&root, &layout(UID), mounts).unwrap();
        let map = root.join("plugins/kubernetes.io/local-volume/volumeDevices/pv-2").join(UID);
        assert!(fs::metadata(&map).unwrap().file_type().is_block_device());
        assert!(device.is_mapped(&root, &layout(UID), &mounts.table().unwrap()));
        // As a stock kubelet locks it.
        assert!(Command::new("losetup").arg("-f").arg(&map).status().unwrap().success());
        devices::clear(&root, &layout(UID), local_volume::DIRECTORY, mounts).unwrap();
        assert!(!map.exists() && mounts.table().unwrap().within(dir).count() == 0);
    });
}
