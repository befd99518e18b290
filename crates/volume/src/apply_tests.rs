//! Volumes on a real directory: they equal a stock kubelet's, interrupted work is completed, a reader never sees a mixture, and
//! nothing foreign is removed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::error::ContentError;
use crate::files::{File, Files, check_tree};
use crate::kinds::{config_map, empty_dir, secret};
use crate::model::{Content, KindDirectory, Store};
use crate::plan::Plan;
use crate::testing::{FakeMounts, Host, UID};

fn now() -> Timestamp {
    "2026-11-21T07:48:54Z".parse().unwrap()
}

fn own_group() -> u32 {
    nix::unistd::getegid().as_raw()
}

fn files(files: &[(&str, &str)]) -> Files {
    let file = |data: &str| File { data: data.into(), mode: 0o644, uid: None };
    files.iter().map(|(path, data)| (path.to_string(), file(data))).collect()
}

fn empty_dir(store: Store) -> Desired {
    Desired { directory: empty_dir::DIRECTORY, store, mode: None, group: None, content: Content::Theirs }
}

fn ours(directory: KindDirectory, content: Files) -> Desired {
    let store = if directory == config_map::DIRECTORY { Store::Disk } else { Store::Memory(1 << 20) };
    Desired { directory, store, mode: None, group: None, content: Content::Ours(content) }
}

impl Host {
    fn layout(&self) -> PodLayout {
        PodLayout::new(self.root.path(), &UID.into()).unwrap()
    }

    fn set_up(&self, desired: &Desired) -> PodVolumes {
        let desired_volume = vec![("v".to_owned(), DesiredVolume::Own(desired.clone()))];
        super::set_up(&self.layout(), desired_volume, &self.mounts, now(), rand::random())
            .finish(Vec::new())
            .with(&PodStates::new())
            .0
    }

    fn plan(&self, desired: &Desired, version: &str) -> Plan {
        let (root, meta) =
            (self.layout().volume(desired.directory, "v"), self.layout().meta(desired.directory, "v"));
        let actual = read_actual(&root, &meta, desired.directory, &self.mounts.table().unwrap()).unwrap();
        plan::set_up(desired, &actual, &root, &meta, version).unwrap()
    }

    fn tear_down(&self) -> Result<(), VolumeError> {
        super::tear_down(self.root.path(), &UID.into(), &self.mounts)
    }

    /// `mode path -> link` of everything in the pod's directory.
    fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(inside) = waiting.pop() {
            for entry in fs::read_dir(self.at("").join(&inside)).unwrap() {
                let path = inside.join(entry.unwrap().file_name());
                let metadata = fs::symlink_metadata(self.at("").join(&path)).unwrap();
                let target = fs::read_link(self.at("").join(&path)).ok();
                let target = target.map(|target| format!(" -> {}", target.display())).unwrap_or_default();
                lines.push(format!("{:o} {}{target}", metadata.mode() & 0o7777, path.display()));
                if metadata.is_dir() {
                    waiting.push(path);
                }
            }
        }
        lines.sort_unstable_by(|a, b| a.split_once(' ').unwrap().1.cmp(b.split_once(' ').unwrap().1));
        lines
    }
}

#[test]
fn a_volume_of_files_equals_the_stock_kubelets() {
    let host = Host::new();
    let desired = Desired {
        group: Some(own_group()),
        ..ours(config_map::DIRECTORY, files(&[("k", "v"), ("d/e/f", "x")]))
    };
    let layout = host.layout();
    let desired_volume = vec![("cm".to_owned(), DesiredVolume::Own(desired))];
    let volumes = super::set_up(&layout, desired_volume, &host.mounts, now(), 1_891_749_333)
        .finish(Vec::new())
        .with(&PodStates::new())
        .0;
    assert_eq!(volumes.problems, []);
    let mounted = &volumes.mounted["cm"];
    assert_eq!(mounted.host_path, host.at("volumes/kubernetes.io~configmap/cm"));
    assert!(mounted.read_only && mounted.relabel);
    let version = "..2026_11_21_07_48_54.1891749333";
    let volume = "volumes/kubernetes.io~configmap/cm";
    let expected = [
        "750 plugins".to_owned(),
        "750 plugins/kubernetes.io~empty-dir".to_owned(),
        "750 plugins/kubernetes.io~empty-dir/wrapped_cm".to_owned(),
        "644 plugins/kubernetes.io~empty-dir/wrapped_cm/ready".to_owned(),
        "750 volumes".to_owned(),
        "755 volumes/kubernetes.io~configmap".to_owned(),
        format!("2777 {volume}"),
        format!("2755 {volume}/{version}"),
        format!("2755 {volume}/{version}/d"),
        format!("2755 {volume}/{version}/d/e"),
        format!("644 {volume}/{version}/d/e/f"),
        format!("644 {volume}/{version}/k"),
        format!("777 {volume}/..data -> {version}"),
        format!("777 {volume}/d -> ..data/d"),
        format!("777 {volume}/k -> ..data/k"),
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable_by(|a, b| a.split_once(' ').unwrap().1.cmp(b.split_once(' ').unwrap().1));
    assert_eq!(host.tree(), expected);
}

#[test]
fn an_empty_dir_is_world_writable_and_created_once() {
    let host = Host::new();
    let desired = empty_dir(Store::Disk);
    let volumes = host.set_up(&desired);
    assert!(!volumes.mounted["v"].read_only);
    let dir = host.at("volumes/kubernetes.io~empty-dir/v");
    let mode = || fs::metadata(&dir).unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o777);
    // A container may change anything in it.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(dir.join("data"), "mine").unwrap();
    symlink("/etc", dir.join("..data")).unwrap();
    assert_eq!(host.plan(&desired, "..x").operations, []);
    host.set_up(&desired);
    assert_eq!((mode(), fs::read_to_string(dir.join("data")).unwrap().as_str()), (0o700, "mine"));
    host.tear_down().unwrap();
    assert!(!dir.exists() && !host.at("plugins/kubernetes.io~empty-dir/v").exists());
}

#[test]
fn a_volume_in_memory_is_mounted_again_after_a_reboot() {
    let host = Host::new();
    let desired = ours(secret::DIRECTORY, files(&[("password", "s3cret")]));
    host.set_up(&desired);
    let file = "kubernetes.io~secret/v/password";
    assert_eq!(host.read(file).unwrap(), "s3cret");
    assert_eq!(host.mounts.sizes(), [1 << 20]);
    assert_eq!(host.plan(&desired, "..x").operations, []);
    // After a reboot, directory and marker are on disk, but the mount is not there.
    host.mounts.unmount(&host.at("volumes/kubernetes.io~secret/v")).unwrap();
    assert_eq!(host.read(file), None);
    host.set_up(&desired);
    assert_eq!(host.read(file).unwrap(), "s3cret");
    assert_eq!(host.mounts.points().len(), 1);
    host.tear_down().unwrap();
    host.tear_down().unwrap();
    assert!(host.mounts.points().is_empty());
    assert!(!host.at("volumes/kubernetes.io~secret/v").exists());
}

#[test]
fn unavailable_content_keeps_the_existing_files() {
    let host = Host::new();
    let known = ours(config_map::DIRECTORY, files(&[("k", "v")]));
    let error = ContentError::Field("x".into());
    let unknown = Desired { content: Content::Unknown(error), ..known.clone() };
    let volumes = host.set_up(&unknown);
    assert!(volumes.mounted.is_empty());
    let expected = "MountVolume.SetUp failed for volume \"v\" : unsupported fieldPath: x";
    assert_eq!(volumes.problems[0].to_string(), expected);
    assert_eq!(host.tree(), [""; 0]);
    host.set_up(&known);
    let volumes = host.set_up(&unknown);
    assert!(volumes.mounted.contains_key("v"));
    assert_eq!(volumes.problems.len(), 1);
    assert_eq!(host.read("kubernetes.io~configmap/v/k").unwrap(), "v");
}

#[test]
fn links_in_a_volume_are_never_followed() {
    let host = Host::new();
    let outside = host.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "mine").unwrap();
    let desired = ours(config_map::DIRECTORY, files(&[("k", "v"), ("d/e", "w")]));
    host.set_up(&desired);
    let volume = host.at("volumes/kubernetes.io~configmap/v");
    for target in
        [outside.as_path(), Path::new("../../../../../outside"), Path::new("..data"), Path::new("..")]
    {
        for name in ["..data", "..data_tmp", "k", "d", "stray"] {
            let _ = fs::remove_file(volume.join(name));
            symlink(target, volume.join(name)).unwrap();
        }
        let volumes = host.set_up(&desired);
        assert_eq!(volumes.problems, []);
        assert_eq!(host.read("kubernetes.io~configmap/v/k").unwrap(), "v");
        assert_eq!(host.read("kubernetes.io~configmap/v/d/e").unwrap(), "w");
        assert!(!volume.join("stray").exists());
    }
    symlink(&outside, volume.join("k2")).unwrap();
    host.tear_down().unwrap();
    assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "mine");
    // Nor at the path of the volume itself.
    fs::create_dir_all(host.at("volumes/kubernetes.io~configmap")).unwrap();
    symlink(&outside, &volume).unwrap();
    let volumes = host.set_up(&desired);
    assert!(volumes.problems[0].to_string().ends_with("is not a directory"), "{:?}", volumes.problems);
    host.tear_down().unwrap();
    assert!(fs::symlink_metadata(&volume).is_err());
    assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "mine");
}

#[test]
fn foreign_mounts_are_neither_crossed_nor_unmounted() {
    let host = Host::new();
    let desired = empty_dir(Store::Disk);
    host.set_up(&desired);
    let dir = host.at("volumes/kubernetes.io~empty-dir/v");
    for (point, filesystem) in
        [(dir.join("disk"), "ext4"), (dir.join("disk"), "tmpfs"), (dir.clone(), "nfs4")]
    {
        fs::create_dir_all(dir.join("disk")).unwrap();
        fs::write(dir.join("disk/precious"), "mine").unwrap();
        let other = FakeMounts::default();
        other.add(&point.canonicalize().unwrap(), filesystem);
        let error = super::tear_down(host.root.path(), &UID.into(), &other).unwrap_err();
        assert!(matches!(&error, VolumeError::TearDown { volume, .. } if volume == "v"), "{error}");
        assert_eq!(fs::read_to_string(dir.join("disk/precious")).unwrap(), "mine");
    }
    // Once it is unmounted, the volume is removed.
    host.tear_down().unwrap();
    assert!(!dir.exists());
}

#[test]
fn the_mode_of_an_empty_dir_is_set_once_and_keeps_the_bits_of_its_group() {
    for (store, group, expected) in [
        (Store::Disk, None, 0o1750),
        (Store::Memory(1 << 20), None, 0o1750),
        (Store::Disk, Some(own_group()), 0o3770),
    ] {
        let host = Host::new();
        let desired = Desired { mode: Some(0o1750), group, ..empty_dir(store) };
        host.set_up(&desired);
        let dir = host.at("volumes/kubernetes.io~empty-dir/v");
        let mode = || fs::metadata(&dir).unwrap().mode() & 0o7777;
        assert_eq!(mode(), expected, "{store:?}");
        // A container may change it.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        host.set_up(&desired);
        assert_eq!(mode(), 0o700, "{store:?}");
    }
}

#[test]
fn huge_pages_are_mounted_once_and_unmounted() {
    let host = Host::new();
    let desired = empty_dir(Store::HugePages(2 << 20));
    for _ in 0..2 {
        assert!(host.set_up(&desired).problems.is_empty());
    }
    let dir = host.at("volumes/kubernetes.io~empty-dir/v");
    let expected = format!("-t hugetlbfs -o pagesize=2Mi -- nodev {}", dir.display());
    assert_eq!(host.mounts.calls(), [expected]);
    let other = Desired { store: Store::Memory(1 << 20), ..desired };
    assert!(!host.set_up(&other).problems.is_empty(), "another volume's mount is not used");
    host.tear_down().unwrap();
    assert!(!dir.exists() && host.mounts.points().is_empty());
}

#[test]
fn a_busy_volume_is_reported_and_the_others_are_removed() {
    let host = Host::new();
    host.set_up(&ours(secret::DIRECTORY, files(&[("k", "v")])));
    host.set_up(&ours(config_map::DIRECTORY, files(&[("k", "v")])));
    host.mounts.set_busy(true);
    let error = host.tear_down().unwrap_err();
    assert_eq!(error.to_string(), "UnmountVolume.TearDown failed for volume \"v\"");
    assert_eq!(host.read("kubernetes.io~secret/v/k").unwrap(), "v");
    assert!(!host.at("volumes/kubernetes.io~configmap/v").exists());
    host.mounts.set_busy(false);
    host.tear_down().unwrap();
    assert!(host.mounts.points().is_empty());
}

#[test]
fn host_paths_are_checked_created_and_never_removed() {
    let host = Host::new();
    let (dir, file) = (host.root.path().join("made/dir"), host.root.path().join("file"));
    assert!(check_host_path(&dir, PathType::Directory).is_err() && !dir.exists());
    check_host_path(&dir, PathType::DirectoryOrCreate).unwrap();
    check_host_path(&file, PathType::FileOrCreate).unwrap();
    assert!(dir.is_dir() && file.is_file());
    let error = check_host_path(&dir, PathType::File).unwrap_err();
    assert_eq!(error.to_string(), format!("hostPath type check failed: {} is not a file", dir.display()));
    let desired_volume = vec![(
        "h".to_owned(),
        DesiredVolume::Host { path: dir.clone(), path_type: PathType::Anything, read_only: false },
    )];
    let volumes = super::set_up(&host.layout(), desired_volume, &host.mounts, now(), 1)
        .finish(Vec::new())
        .with(&PodStates::new())
        .0;
    assert_eq!(volumes.mounted["h"], Mounted { host_path: dir.clone(), read_only: false, relabel: false });
    host.tear_down().unwrap();
    assert!(dir.is_dir() && file.is_file());
}

#[test]
fn a_reader_never_sees_a_mixture() {
    let host = Host::new();
    let of = |generation: usize| {
        let text = generation.to_string().repeat(1_000);
        ours(config_map::DIRECTORY, files(&[("a", &text), ("dir/b", &text), ("c", &text)]))
    };
    host.set_up(&of(0));
    let done = AtomicBool::new(false);
    let volume = host.at("volumes/kubernetes.io~configmap/v");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::SeqCst) {
                // For a consistent set of files, a reader opens the directory first.
                let version = volume.join(fs::read_link(volume.join("..data")).unwrap());
                let read = |path: &str| fs::read_to_string(version.join(path));
                if let (Ok(a), Ok(b), Ok(c)) = (read("a"), read("dir/b"), read("c")) {
                    assert!(a == b && b == c, "{} {} {}", &a[..3], &b[..3], &c[..3]);
                    seen += 1;
                }
                // A single file is always complete and always exists.
                let one = fs::read_to_string(volume.join("a"));
                match one {
                    Ok(one) => assert_eq!(one.len() % 1_000, 0),
                    // Opened through the previous directory, which was removed meanwhile.
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
                }
            }
            seen
        });
        for generation in 1..200 {
            assert_eq!(host.set_up(&of(generation)).problems, []);
        }
        done.store(true, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 0);
    });
    let entries = fs::read_dir(&volume).unwrap().count();
    assert_eq!(entries, 5, "one directory, the link to it, and three names");
}

fn any_files() -> impl Strategy<Value = Files> {
    let path = "[ab](/[ab]){0,2}";
    let file = ("[xy]{0,2}", prop_oneof![Just(0o644), Just(0o400)]);
    let files = prop::collection::btree_map(path, file, 0..4).prop_map(|files| {
        let file = |(data, mode): (String, u32)| File { data: data.into(), mode, uid: None };
        files.into_iter().map(|(path, of)| (path, file(of))).collect::<Files>()
    });
    files.prop_filter("no file is a directory", |files| check_tree(files).is_ok())
}

fn any_desired() -> impl Strategy<Value = Desired> {
    let kind = prop_oneof![Just(config_map::DIRECTORY), Just(secret::DIRECTORY)];
    (kind, any_files(), any::<bool>()).prop_map(|(kind, files, grouped)| {
        let group = grouped.then(own_group);
        let files = files.into_iter().map(|(path, file)| {
            let mode = if grouped { file.mode | 0o440 } else { file.mode };
            (path, File { mode, ..file })
        });
        Desired { group, ..ours(kind, files.collect()) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any history of interrupted setups, the next setup reaches the desired state and leaves nothing to do; a teardown,
    /// interrupted or not, finally leaves nothing.
    #[test]
    fn interrupted_work_converges(history in prop::collection::vec((any_desired(), 0usize..12), 1..5)) {
        let host = Host::new();
        for (number, (desired, cut)) in history.iter().enumerate() {
            let plan = host.plan(desired, &format!("..2026_{number}"));
            for operation in plan.operations.iter().take(*cut) {
                execute(operation, &host.mounts).unwrap();
            }
        }
        let (last, _) = history.last().unwrap();
        let volumes = host.set_up(last);
        prop_assert_eq!(&volumes.problems, &[]);
        prop_assert_eq!(host.plan(last, "..x").operations, []);
        let Content::Ours(files) = &last.content else { unreachable!() };
        let dir = &volumes.mounted["v"].host_path;
        for (path, file) in files {
            prop_assert_eq!(fs::read(dir.join(path)).unwrap(), file.data.clone());
        }
        let names = fs::read_dir(dir).unwrap().count();
        prop_assert_eq!(names, 2 + crate::files::top_names(files).len());

        let operations: Vec<_> = leftovers(&host.layout(), &host.mounts)
            .unwrap()
            .iter()
            .flat_map(|left| plan::tear_down(left).unwrap())
            .collect();
        for operation in operations.iter().take(history[0].1) {
            execute(operation, &host.mounts).unwrap();
        }
        host.tear_down().unwrap();
        prop_assert_eq!(leftovers(&host.layout(), &host.mounts).unwrap(), []);
        prop_assert!(host.mounts.points().is_empty());
    }
}
