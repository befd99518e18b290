//! Mount tables and the calls of mount; needs no root.

use proptest::prelude::*;

use super::*;
use crate::testing::skipped;

const TEXT: &[u8] = b"25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
    288 44 0:167 / /lib/pods/u/volumes/a rw,relatime shared:23 - tmpfs tmpfs rw,size=16384k\n\
    289 44 0:168 / /lib/pods/u/volumes/a rw - tmpfs tmpfs rw\n\
    290 44 0:169 / /lib/pods/u/with\\040space\\134 rw master:1 propagate_from:2 - fuse.x x rw\n\
    nonsense\n\n1 2 3 4 5 6\n";

#[test]
fn mounts_are_found_at_and_within() {
    let table = MountTable::parse(TEXT);
    let types = |mounts: Vec<&Mount>| mounts.iter().map(|m| m.filesystem.clone()).collect::<Vec<_>>();
    assert_eq!(types(table.at(Path::new("/lib/pods/u/volumes/a")).collect()), ["tmpfs", "tmpfs"]);
    assert_eq!(types(table.within(Path::new("/lib/pods/u")).collect()), ["tmpfs", "tmpfs", "fuse.x"]);
    assert_eq!(table.at(Path::new("/lib/pods/u/with space\\")).count(), 1);
    assert_eq!(
        table.within(Path::new("/lib/pods/u/vol")).count(),
        0,
        "a beginning of a name is no directory"
    );
    assert_eq!(table.within(Path::new("/")).count(), 4);
    let is_shared = |path: &str| table.of(Path::new(path)).unwrap().is_shared;
    assert!(is_shared("/lib") && !is_shared("/lib/pods/u/volumes/a/b"), "the topmost mount counts");
}

#[test]
fn exports_below_an_export_are_unmounted_with_it() {
    let table = MountTable::parse(
        b"25 1 0:40 / /export rw - nfs4 server:/ rw\n\
        26 25 0:41 / /export/home rw - nfs4 server:/home rw\n\
        27 26 0:42 / /export/home/tmp rw - tmpfs tmpfs rw\n\
        28 1 254:0 / /data rw - ext4 /dev/vda rw\n\
        29 28 0:43 / /data/nfs rw - nfs server:/ rw\n",
    );
    let inside = |point: &str| -> Vec<PathBuf> {
        table.inside(Path::new(point)).map(|mount| mount.point.clone()).collect()
    };
    assert_eq!(inside("/export"), [Path::new("/export/home/tmp")]);
    assert_eq!(inside("/data"), [Path::new("/data/nfs")]);
    assert!(inside("/data/nfs").is_empty() && inside("/nowhere").is_empty());
}

#[test]
fn the_kernel_tells_which_options_of_a_tmpfs_it_knows() {
    if fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).is_err() {
        return skipped("needs root on the host");
    }
    assert!(tmpfs_has_option("inode64") && !tmpfs_has_option("no-such-option"));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    // An older kernel of a distribution may have it as well.
    if (numbers.next(), numbers.next()) >= (Some(6), Some(3)) {
        assert!(tmpfs_can_avoid_swap(), "Linux {release}");
    }
}

#[test]
fn calls_have_mounts_arguments() {
    let text = |call: MountCall| call.arguments().join(std::ffi::OsStr::new(" ")).into_string().unwrap();
    let nfs = MountCall {
        source: "[fd00::1]:/export".into(),
        target: "/pods/u/v".into(),
        filesystem: Some("nfs".into()),
        options: vec!["nfsvers=4.2".into(), "ro".into()],
    };
    assert_eq!(text(nfs.clone()), "-t nfs -o nfsvers=4.2,ro -- [fd00::1]:/export /pods/u/v");
    assert_eq!(text(MountCall { options: vec![], ..nfs.clone() }), "-t nfs -- [fd00::1]:/export /pods/u/v");
    let bind = MountCall { source: "-odd".into(), filesystem: None, options: vec!["bind".into()], ..nfs };
    assert_eq!(text(bind), "-o bind -- -odd /pods/u/v");
}

#[test]
fn a_failed_mount_says_what_the_program_said() {
    let target = tempfile::tempdir().unwrap();
    let mounts = KernelMounts { mountinfo: "/proc/self/mountinfo".into() };
    let call = MountCall {
        source: "/nowhere/at/all".into(),
        target: target.path().to_owned(),
        filesystem: None,
        options: vec!["bind".into()],
    };
    let text = mounts.mount(&call).unwrap_err().to_string();
    let start = "mount failed: exit status ";
    assert!(text.starts_with(start) && text.contains("/nowhere/at/all"), "{text}");
    assert!(
        text.contains("\nMounting command: mount\nMounting arguments: -o bind /nowhere/at/all "),
        "{text}"
    );
}

#[test]
fn the_mounts_of_this_process_can_be_read() {
    let mounts = KernelMounts { mountinfo: "/proc/self/mountinfo".into() };
    assert!(mounts.table().unwrap().within(Path::new("/")).count() > 0);
    let error = KernelMounts { mountinfo: "/nowhere".into() }.table().unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nowhere");
}

proptest! {
    #[test]
    fn any_text_can_be_read(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let table = MountTable::parse(&text);
        prop_assert!(table.0.len() <= text.split(|byte| *byte == b'\n').count());
    }
}
