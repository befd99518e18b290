//! Directories of manifests that change: which files are read again, and who can read them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use jiff::{Timestamp, ToSpan};
use nix::sys::stat::Mode;

use std::os::unix::fs::PermissionsExt;

use super::{FileAccess, FileRead, Files, Pass};

/// A pass over `path`, as lines of file name and result, with all files settled.
fn pass(files: &mut Files, path: &Path) -> Vec<String> {
    match files.read(path, Timestamp::now() + 1.hour()) {
        Pass::Failed { message, .. } => vec![message],
        Pass::Listed(reads) => reads
            .map(|(file, read)| {
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                match read {
                    FileRead::Unchanged => format!("{name} unchanged"),
                    FileRead::Bytes(bytes, _) => format!("{name} = {}", String::from_utf8_lossy(&bytes)),
                    FileRead::Unusable(why) => format!("{name} unusable: {why}"),
                }
            })
            .collect(),
    }
}

#[test]
fn only_changed_files_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut files = Files::default();
    fs::write(at("a"), "1").unwrap();
    fs::write(at(".hidden"), "x").unwrap();
    assert_eq!(pass(&mut files, directory.path()), ["a = 1"]);
    fs::write(at("b"), "2").unwrap();
    assert_eq!(pass(&mut files, directory.path()), ["a unchanged", "b = 2"]);
    fs::write(at("new"), "3").unwrap();
    fs::rename(at("new"), at("a")).unwrap();
    assert_eq!(pass(&mut files, directory.path()), ["a = 3", "b unchanged"]);
    fs::remove_file(at("b")).unwrap();
    assert_eq!(pass(&mut files, directory.path()), ["a unchanged"]);
    fs::write(at("b"), "2").unwrap();
    assert_eq!(pass(&mut files, directory.path()), ["a unchanged", "b = 2"]);
}

#[test]
fn a_link_that_was_deleted_and_made_again_is_read() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (link, target) = (directory.path().join("a"), elsewhere.path().join("target"));
    fs::write(&target, "1").unwrap();
    let mut files = Files::default();
    for deleted in [BTreeSet::new(), BTreeSet::from([link.clone()])] {
        let _ = fs::remove_file(&link);
        symlink(&target, &link).unwrap();
        files.forget(&deleted);
        assert_eq!(pass(&mut files, directory.path()), ["a = 1"]);
        assert_eq!(pass(&mut files, directory.path()), ["a unchanged"]);
    }
}

#[test]
fn a_file_that_just_changed_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), "1").unwrap();
    let mut files = Files::default();
    for _ in 0..2 {
        let Pass::Listed(mut reads) = files.read(directory.path(), Timestamp::now()) else { panic!() };
        assert!(reads.all(|(_, read)| matches!(read, FileRead::Bytes(..))));
    }
}

#[test]
fn who_can_read_a_file_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    fs::write(&path, "1").unwrap();
    for (mode, expected) in [
        (0o600, FileAccess::Private),
        (0o400, FileAccess::Private),
        (0o640, FileAccess::Shared),
        (0o602, FileAccess::Shared),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mut files = Files::default();
        let Pass::Listed(mut reads) = files.read(&path, Timestamp::now()) else { panic!() };
        let read = reads.next().unwrap().1;
        assert!(matches!(read, FileRead::Bytes(_, access) if access == expected), "{mode:o} {read:?}");
    }
}

#[test]
fn special_files_are_rejected_without_blocking() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("directory")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("target", at("link")).unwrap();
    fs::write(at("target"), "t").unwrap();
    let large = fs::File::create(at("large")).unwrap();
    large.set_len(11 * 1024 * 1024).unwrap();
    assert_eq!(
        pass(&mut Files::default(), directory.path()),
        [
            "dangling unusable: the target of the symbolic link does not exist",
            "directory unusable: a directory is not a manifest; only regular files are read",
            "fifo unusable: a named pipe is not a manifest; only regular files are read",
            "large unusable: the file is larger than 10 MiB, the limit for manifests",
            "link = t",
            "null unusable: a device is not a manifest; only regular files are read",
            "socket unusable: a socket is not a manifest; only regular files are read",
            "target = t",
        ]
    );
}

#[test]
fn a_path_may_be_one_file_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pod.yaml");
    let mut files = Files::default();
    assert!(pass(&mut files, &file).is_empty());
    fs::write(&file, "1").unwrap();
    assert_eq!(pass(&mut files, &file), ["pod.yaml = 1"]);
    assert_eq!(pass(&mut files, &file), ["pod.yaml unchanged"]);
    assert!(pass(&mut files, &file.join("below")).iter().all(|message| message.contains("cannot list")));
}
