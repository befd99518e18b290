//! Mounts of what outlives the pod: their calls, what is done again and what is not, and that nothing of theirs is deleted.

use std::os::unix::fs::PermissionsExt;

use hostlet_host::testing::skipped;

use super::*;
use crate::apply::tear_down;
use crate::kinds::{local_volume, nfs};
use crate::testing::{Host, UID, block_device};

fn local(source: &Path) -> External {
    External {
        directory: local_volume::DIRECTORY,
        name: "pv-1".to_owned(),
        source: source.to_str().unwrap().to_owned(),
        unit: source.to_owned(),
        options: Vec::new(),
        read_only: false,
        group: None,
        is_exclusive: false,
        fs_type: "ext4".to_owned(),
        claim: None,
    }
}

fn nfs() -> External {
    let source = Path::new("server:/export");
    External { directory: nfs::DIRECTORY, options: vec!["nfsvers=4.2".to_owned()], ..local(source) }
}

impl Host {
    fn pod(&self, uid: &str) -> PodLayout {
        PodLayout::new(self.root.path(), &uid.into()).unwrap()
    }

    fn mount(&self, external: &External, uid: &str) -> Result<(), String> {
        let done = self.try_mount(external, uid);
        done.map(drop).map_err(|problem| problem.to_string())
    }

    fn try_mount(&self, external: &External, uid: &str) -> Result<Option<String>, VolumeProblem> {
        let (disks, devices) = (self.disks.clone(), DeviceLocks::default());
        let means = Means { mounts: &self.mounts, disks: &disks, devices: &devices };
        external.set_up(self.root.path(), &self.pod(uid), means)
    }

    fn is_ready(&self, external: &External, uid: &str) -> bool {
        external.is_ready(&self.pod(uid), &self.mounts.table().unwrap())
    }
}

#[test]
fn a_directory_is_bound_at_upstreams_path_and_survives_the_pod() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    fs::write(disk.path().join("precious"), "kept").unwrap();
    let volume = local(disk.path());
    assert!(!host.is_ready(&volume, UID));
    host.mount(&volume, UID).unwrap();
    let dir = host.at("volumes/kubernetes.io~local-volume/pv-1");
    let expected = [format!("-o bind -- {} {}", disk.path().display(), dir.display())];
    assert_eq!(host.mounts.calls(), expected);
    assert!(host.is_ready(&volume, UID) && volume.dir(&host.pod(UID)) == dir);
    // Done again, it is only marked again.
    host.mount(&volume, UID).unwrap();
    assert_eq!(host.mounts.calls(), expected);
    host.mounts.set_busy(true);
    tear_down(host.root.path(), &UID.into(), &host.mounts).unwrap_err();
    assert!(host.mounts.points().len() == 1 && dir.exists());
    host.mounts.set_busy(false);
    for _ in 0..2 {
        tear_down(host.root.path(), &UID.into(), &host.mounts).unwrap();
        assert!(host.mounts.points().is_empty() && !dir.exists());
    }
    assert_eq!(fs::read_to_string(disk.path().join("precious")).unwrap(), "kept");
    assert!(!host.at("plugins/kubernetes.io~local-volume/pv-1").exists());
}

#[test]
fn options_follow_the_bind_and_a_read_only_volume_has_ro() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    let mut volume = local(disk.path());
    volume.options = vec!["nosuid".to_owned()];
    volume.read_only = true;
    host.mount(&volume, UID).unwrap();
    let calls: Vec<_> =
        host.mounts.calls().iter().map(|call| call.split(" --").next().unwrap().to_owned()).collect();
    assert_eq!(calls, ["-o bind", "-o bind,remount,nosuid,ro"]);
}

#[test]
fn an_export_is_mounted_with_its_options() {
    let host = Host::new();
    host.mount(&nfs(), UID).unwrap();
    let dir = host.at("volumes/kubernetes.io~nfs/pv-1");
    assert_eq!(host.mounts.calls(), [format!("-t nfs -o nfsvers=4.2 -- server:/export {}", dir.display())]);
    assert!(host.is_ready(&nfs(), UID));
    tear_down(host.root.path(), &UID.into(), &host.mounts).unwrap();
    assert!(host.mounts.points().is_empty() && !dir.exists());
}

#[test]
fn a_failed_mount_leaves_nothing_and_is_tried_again() {
    let host = Host::new();
    host.mounts.set_busy(true);
    let text = host.mount(&nfs(), UID).unwrap_err();
    assert!(text.starts_with("MountVolume.SetUp failed for volume \"pv-1\" : "), "{text}");
    assert!(!host.at("volumes/kubernetes.io~nfs/pv-1").exists() && !host.is_ready(&nfs(), UID));
    host.mounts.set_busy(false);
    host.mount(&nfs(), UID).unwrap();
    assert!(host.is_ready(&nfs(), UID));
}

#[test]
fn a_path_that_is_no_directory_is_reported_in_upstreams_words() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    let missing = disk.path().join("none");
    let expected = format!(
        "MountVolume.NewMounter initialization failed for volume \"pv-1\" : path \"{}\" does not exist",
        missing.display()
    );
    assert_eq!(host.mount(&local(&missing), UID).unwrap_err(), expected);
    let file = disk.path().join("file");
    fs::write(&file, "").unwrap();
    let text = host.mount(&local(&file), UID).unwrap_err();
    assert!(text.ends_with("only directory and block device are supported"), "{text}");
    assert!(host.mounts.calls().is_empty());
}

#[test]
fn work_that_was_interrupted_after_the_mount_is_completed() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    let mut volume = local(disk.path());
    volume.options = vec!["nosuid".to_owned()];
    host.mount(&volume, UID).unwrap();
    unmark(&host.pod(UID).meta(volume.directory, &volume.name)).unwrap();
    assert!(!host.is_ready(&volume, UID));
    host.mount(&volume, UID).unwrap();
    assert!(host.is_ready(&volume, UID));
    assert_eq!((host.mounts.points().len(), host.mounts.calls().len()), (1, 3), "bound once");
    // A marker without a mount is one of an earlier boot.
    host.mounts.unmount(&volume.dir(&host.pod(UID))).unwrap();
    assert!(!host.is_ready(&volume, UID));
}

#[test]
fn a_volume_for_one_pod_is_not_mounted_for_another() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    let mut volume = local(disk.path());
    host.mount(&volume, UID).unwrap();
    host.mount(&volume, "uid-2").unwrap();
    volume.is_exclusive = true;
    host.mount(&volume, UID).unwrap_err();
    tear_down(host.root.path(), &"uid-2".into(), &host.mounts).unwrap();
    host.mount(&volume, UID).unwrap();
    let text = host.mount(&volume, "uid-3").unwrap_err();
    assert!(text.ends_with("is already in use by another pod"), "{text}");
}

#[test]
fn a_group_is_set_once_and_not_while_another_pod_uses_the_volume() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    let mut volume = local(disk.path());
    volume.group = Some((nix::unistd::getegid().as_raw(), GroupChange::Always));
    // The fake does not bind: its directory stands for the mounted one.
    let mode = |uid: &str| fs::metadata(volume.dir(&host.pod(uid))).unwrap().permissions().mode() & 0o7777;
    host.mount(&volume, UID).unwrap();
    assert_eq!(mode(UID) & 0o2770, 0o2770);
    host.mount(&volume, "uid-2").unwrap();
    assert_ne!(mode("uid-2") & 0o2770, 0o2770);
    volume.read_only = true;
    tear_down(host.root.path(), &"uid-2".into(), &host.mounts).unwrap();
    tear_down(host.root.path(), &UID.into(), &host.mounts).unwrap();
    host.mount(&volume, "uid-3").unwrap();
    assert_ne!(fs::metadata(volume.dir(&host.pod("uid-3"))).unwrap().permissions().mode() & 0o2770, 0o2770);
}

#[test]
fn a_volume_that_others_have_with_another_group_is_told_when_it_is_mounted() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    let (mut volume, existing) = (local(disk.path()), fs::metadata(disk.path()).unwrap().gid());
    let warning = |volume: &External, uid: &str| host.try_mount(volume, uid).unwrap();
    volume.group = Some((existing, GroupChange::Always));
    assert_eq!(warning(&volume, UID), None);
    assert_eq!(warning(&volume, "uid-2"), None, "the same group");
    volume.group = Some((existing + 1, GroupChange::Always));
    let expected = format!(
        "The requested fsGroup is {}, but the volume pv-1 has GID {existing}. The volume may not be shareable.",
        existing + 1
    );
    assert_eq!(warning(&volume, "uid-3"), Some(expected));
    assert_eq!(warning(&volume, "uid-3"), None, "it is mounted already");
}

#[test]
fn what_a_container_wrote_below_a_mount_that_it_did_not_see_is_kept() {
    let host = Host::new();
    let disk = tempfile::tempdir().unwrap();
    host.mount(&local(disk.path()), UID).unwrap();
    // The container's runtime has another mount namespace, and the program made its database in the bare directory.
    let dir = host.at("volumes/kubernetes.io~local-volume/pv-1");
    host.mounts.unmount(&dir).unwrap();
    let database = dir.join("database");
    fs::write(&database, "precious").unwrap();
    let error = tear_down(host.root.path(), &UID.into(), &host.mounts).unwrap_err();
    let text = hostlet_base::error_chain(&error);
    assert!(text.contains("pv-1 has content of its own"), "{text}");
    assert!(database.exists() && host.mounts.points().is_empty());
    fs::remove_file(&database).unwrap();
    tear_down(host.root.path(), &UID.into(), &host.mounts).unwrap();
    assert!(!dir.exists());
}

#[test]
fn exports_below_an_export_are_unmounted_with_it() {
    let host = Host::new();
    let dir = host.at("volumes/kubernetes.io~nfs/pv-1");
    let mount_with = |filesystem| {
        host.mount(&nfs(), UID).unwrap();
        host.mounts.add(&dir.canonicalize().unwrap().join("home"), filesystem);
        tear_down(host.root.path(), &UID.into(), &host.mounts)
    };
    mount_with("nfs4").unwrap();
    assert!(host.mounts.points().is_empty() && !dir.exists());
    let error = hostlet_base::error_chain(&mount_with("tmpfs").unwrap_err());
    assert!(error.contains("pv-1 has something mounted in it") && dir.exists(), "{error}");
}

#[test]
fn volumes_of_plugins_that_hostlet_does_not_have_are_found() {
    use crate::unknown_plugins;
    let host = Host::new();
    let found = || unknown_plugins(host.root.path(), &UID.into()).unwrap();
    assert!(found().is_empty());
    for path in [
        "volumes/kubernetes.io~empty-dir/a",
        "volumes/kubernetes.io~iscsi",
        "volumes/kubernetes.io~flexvolume/a",
        "volumes/kubernetes.io~csi/pvc-1/mount",
        "volumeDevices/kubernetes.io~csi/pvc-2",
        "volumeDevices/kubernetes.io~fc/pvc-3",
    ] {
        fs::create_dir_all(host.at(path)).unwrap();
    }
    assert_eq!(found(), ["kubernetes.io~fc", "kubernetes.io~flexvolume"]);
}

#[test]
fn the_filesystem_of_a_device_is_made_once_and_mounted_as_long_as_a_pod_has_it() {
    let Some(device) = block_device() else { return skipped("needs a block device in /dev") };
    let host = Host::new();
    let mut volume = local(&device);
    volume.options = vec!["noatime".to_owned()];
    volume.read_only = true;
    let text = host.mount(&volume, UID).unwrap_err();
    let expected = format!(
        "MountVolume.MountDevice failed for volume \"pv-1\" : cannot mount unformatted disk {} as we are manipulating it in \
         read-only mode",
        device.display()
    );
    assert_eq!((text, host.disks.calls().len()), (expected, 0));
    volume.read_only = false;
    host.mount(&volume, UID).unwrap();
    host.mount(&volume, "uid-2").unwrap();
    let shared = host.root.path().join("plugins/kubernetes.io/local-volume/mounts/pv-1");
    let pod = |uid: &str| volume.dir(&host.pod(uid));
    assert_eq!(host.disks.calls(), [format!("make ext4 {}", device.display())]);
    let calls = host.mounts.calls();
    assert_eq!(calls[0], format!("-t ext4 -o noatime,defaults -- {} {}", device.display(), shared.display()));
    assert_eq!(calls[1], format!("-o bind -- {} {}", shared.display(), pod(UID).display()));
    assert_eq!(calls.iter().filter(|call| call.starts_with("-t")).count(), 1);
    let end = |uid: &str| {
        tear_down(host.root.path(), &uid.into(), &host.mounts).unwrap();
        let devices = DeviceLocks::default();
        release_devices(host.root.path(), local_volume::DIRECTORY, &host.mounts, &devices).unwrap();
    };
    end(UID);
    assert!(shared.exists() && host.is_ready(&volume, "uid-2"));
    // Somebody works in it: that is tried again.
    tear_down(host.root.path(), &"uid-2".into(), &host.mounts).unwrap();
    host.mounts.set_busy(true);
    end("uid-2");
    assert!(shared.exists() && host.mounts.points().len() == 1);
    host.mounts.set_busy(false);
    end("uid-3");
    assert!(!shared.exists() && host.mounts.points().is_empty());
    // The next pod finds what is on the device.
    host.mount(&volume, UID).unwrap();
    assert_eq!(host.disks.calls()[1..], [format!("repair {}", device.display())]);
}

#[test]
fn a_device_that_cannot_be_mounted_leaves_nothing_and_is_tried_again() {
    let Some(device) = block_device() else { return skipped("needs a block device in /dev") };
    let host = Host::new();
    host.disks.set("xfs");
    host.mounts.set_busy(true);
    let text = host.mount(&local(&device), UID).unwrap_err();
    assert!(text.starts_with("MountVolume.MountDevice failed for volume \"pv-1\" : "), "{text}");
    assert!(!host.root.path().join("plugins/kubernetes.io/local-volume/mounts/pv-1").exists());
    host.mounts.set_busy(false);
    host.mount(&local(&device), UID).unwrap();
}
