//! File access and reader together against hostile directories: huge, full, changing while they are read, under a clock
//! that jumps.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hostlet_pod::ManifestOrigin;
use jiff::{Timestamp, ToSpan};
use nix::sys::stat::Mode;
use proptest::prelude::*;

use super::files::Files;
use super::reader::{FileRead, Pass, Reader};
use super::{FileAccess, ManifestContext, StaticPod, read_manifest};

const MIB: usize = 1 << 20;

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - {{name: c, image: {image}}}\n"
    )
}

/// A time at which every file is settled.
fn later() -> Timestamp {
    Timestamp::now() + 1.hour()
}

/// What the task runs in its blocking thread.
struct Source {
    files: Files,
    reader: Reader,
}

impl Source {
    fn new() -> Self {
        Self { files: Files::default(), reader: Reader::new("n", true, &[]) }
    }

    /// Reads once; returns how many files were actually read.
    fn pass(&mut self, path: &Path, now: Timestamp) -> usize {
        let read = Cell::new(0);
        let count =
            |found: &FileRead| read.set(read.get() + usize::from(matches!(found, FileRead::Bytes(..))));
        let pass = match self.files.read(path, now) {
            Pass::Listed(files) => Pass::Listed(Box::new(files.inspect(|(_, found)| count(found)))),
            failed @ Pass::Failed { .. } => failed,
        };
        self.reader.apply(pass, now);
        read.get()
    }

    fn pods(&self) -> Vec<Arc<StaticPod>> {
        self.reader.state().pods
    }

    fn images(&self) -> Vec<String> {
        let image =
            |pod: &Arc<StaticPod>| pod.pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        self.pods().iter().map(image).collect()
    }

    /// Names of the files with problems, and their messages.
    fn problems(&self) -> Vec<(String, String)> {
        let name = |origin: ManifestOrigin| {
            origin.file().and_then(Path::file_name).unwrap().to_string_lossy().into_owned()
        };
        self.reader
            .state()
            .problems
            .into_iter()
            .map(|problem| (name(problem.origin), problem.message))
            .collect()
    }
}

#[test]
fn a_manifest_may_have_ten_mebibytes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.yaml");
    let pod = pod("a", "one");
    let padded = |size: usize| format!("{pod}#{}", "x".repeat(size - pod.len() - 1));
    let mut source = Source::new();
    fs::write(&file, padded(10 * MIB)).unwrap();
    source.pass(directory.path(), later());
    assert_eq!((source.images(), source.problems()), (vec!["one".to_owned()], vec![]));

    fs::write(&file, padded(10 * MIB + 1)).unwrap();
    source.pass(directory.path(), later());
    let message = "the file is larger than 10 MiB, the limit for manifests".to_owned();
    assert_eq!(source.problems(), [("a.yaml".to_owned(), message)]);
    assert_eq!(source.images(), ["one"], "the pod it defined before stays");
}

#[test]
fn large_manifests_are_rejected_with_short_messages() {
    let head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n";
    let long = "x".repeat(MIB);
    let spec = "spec:\n  containers:\n  - {name: c, image: i}\n";
    for (what, text, expected) in [
        (
            "an annotation",
            format!("{head}  annotations: {{a: {long}}}\n{spec}"),
            "line 5: metadata.annotations",
        ),
        (
            "a name",
            format!("{head}spec:\n  containers:\n  - {{name: {long}, image: i}}\n"),
            "line 7: spec.containers[0].name",
        ),
        (
            "an image",
            format!("{head}spec:\n  containers:\n  - {{name: c, image: \"{long} \"}}\n"),
            "line 7: spec.containers[0].image",
        ),
        ("a field", format!("{head}{spec}  ? {long}\n  : 1\n"), "line 8: spec.x"),
        (
            "items",
            format!("{head}spec:\n  containers: [{}]\n", "{},".repeat(50_000)),
            "line 6: spec.containers[0]",
        ),
        (
            "fields",
            format!("{head}{spec}{}", (0..50_000).map(|n| format!("  f{n}: 1\n")).collect::<String>()),
            "line 8: spec.f0",
        ),
        ("a wrong value", format!("{head}{spec}  hostNetwork: {long}\n"), "line 8: spec.hostNetwork"),
        ("a number", format!("{head}{spec}  priority: {}\n", "9".repeat(MIB)), "line 8: spec.priority"),
    ] {
        let file = Path::new("/m/a");
        let context = ManifestContext { file, access: FileAccess::Private, node_name: "n", is_alone: true };
        let error = read_manifest(text.as_bytes(), &context, Timestamp::UNIX_EPOCH);
        let message = error.unwrap_err().to_string();
        let start = &message[..message.len().min(200)];
        assert!(message.starts_with(expected), "{what}: {start}");
        assert!(message.len() < 101 * 1100, "{what}: {} bytes: {start}", message.len());
    }
}

#[test]
fn of_two_thousand_files_only_the_edited_one_is_read_again() {
    const COUNT: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let at = |n: usize| directory.path().join(format!("{n:04}.yaml"));
    for n in 0..COUNT {
        fs::write(at(n), pod(&format!("p{n}"), "one")).unwrap();
    }
    let mut source = Source::new();
    assert_eq!(source.pass(directory.path(), later()), COUNT);
    let before = source.pods();
    assert_eq!(before.len(), COUNT);
    assert_eq!(source.pass(directory.path(), later()), 0);

    fs::write(at(1234), pod("p1234", "another")).unwrap();
    assert_eq!(source.pass(directory.path(), later()), 1);
    let after = source.pods();
    let replaced: Vec<usize> = (0..COUNT).filter(|n| !Arc::ptr_eq(&before[*n], &after[*n])).collect();
    assert_eq!(replaced, [1234]);

    // Files that are read again, as with a clock set back, are parsed only if their content changed.
    assert_eq!(source.pass(directory.path(), Timestamp::now() - 24.hours()), 0);
    fs::write(at(7), "{half").unwrap();
    fs::remove_file(at(8)).unwrap();
    assert_eq!(source.pass(directory.path(), later()), 1);
    assert_eq!((source.pods().len(), source.problems().len()), (COUNT - 1, 1));
}

#[test]
fn two_thousand_broken_files_are_reported_once_each() {
    let directory = tempfile::tempdir().unwrap();
    for n in 0..2000 {
        fs::write(directory.path().join(format!("{n:04}")), "[").unwrap();
    }
    let mut source = Source::new();
    source.pass(directory.path(), later());
    let before = source.reader.state();
    assert_eq!(before.problems.len(), 2000);
    fs::write(directory.path().join("0005"), "{half").unwrap();
    source.pass(directory.path(), later());
    let after = source.reader.state();
    assert_eq!(super::merge::new_problems(&before, &after).len(), 1);
}

#[test]
fn links_lead_to_files_or_to_an_explanation() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(elsewhere.path().join("pod"), pod("linked", "one")).unwrap();
    symlink(elsewhere.path().join("pod"), at("file")).unwrap();
    symlink(at("file"), at("file-of-link")).unwrap();
    symlink(elsewhere.path(), at("directory")).unwrap();
    symlink(directory.path(), at("itself")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink(at("loop-b"), at("loop-a")).unwrap();
    symlink(at("loop-a"), at("loop-b")).unwrap();
    symlink("/dev/zero", at("zero")).unwrap();
    let mut source = Source::new();
    source.pass(directory.path(), later());
    assert_eq!(source.images(), ["one"]);
    let problems = source.problems();
    let message = |name: &str| &problems.iter().find(|(file, _)| file == name).unwrap().1;
    assert!(message("file-of-link").contains("already defined"), "{problems:?}");
    assert!(message("directory").starts_with("a directory is not a manifest"), "{problems:?}");
    assert!(message("itself").starts_with("a directory is not a manifest"), "{problems:?}");
    assert!(message("dangling").contains("does not exist"), "{problems:?}");
    assert!(message("loop-a").starts_with("cannot read the file: "), "{problems:?}");
    assert!(message("zero").starts_with("a device is not a manifest"), "{problems:?}");

    // A link that is turned to another file, as a ConfigMap's projection does.
    fs::write(elsewhere.path().join("next"), pod("linked", "another")).unwrap();
    symlink(elsewhere.path().join("next"), at(".swap")).unwrap();
    fs::rename(at(".swap"), at("file")).unwrap();
    source.pass(directory.path(), later());
    assert_eq!(source.images(), ["another"]);
}

#[test]
fn an_unreadable_file_is_reported_and_read_once_it_is_readable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.yaml");
    fs::write(&file, pod("a", "one")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let mut source = Source::new();
    source.pass(directory.path(), later());
    // Root can read it in any mode; the daemon runs as root, the test may not.
    if nix::unistd::geteuid().is_root() {
        assert_eq!(source.images(), ["one"]);
    } else {
        assert!(source.problems()[0].1.contains("cannot read the file: Permission denied"));
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    source.pass(directory.path(), later());
    assert_eq!((source.images(), source.problems()), (vec!["one".to_owned()], vec![]));

    // A file that opens but cannot be read: nothing is mapped at the start of a process's memory.
    symlink("/proc/self/mem", directory.path().join("failing")).unwrap();
    source.pass(directory.path(), later());
    let problems = source.problems();
    assert!(problems[0].1.starts_with("cannot read the file: Input/output error"), "{problems:?}");
    assert_eq!(source.images(), ["one"]);
}

#[test]
fn files_that_change_after_listing_are_read_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["a", "b", "c", "d", "e"] {
        fs::write(at(name), pod(name, "one")).unwrap();
    }
    let mut files = Files::default();
    let Pass::Listed(mut reads) = files.read(directory.path(), later()) else { panic!() };
    assert!(matches!(reads.next(), Some((_, FileRead::Bytes(..)))));
    for name in ["b", "c", "d"] {
        fs::remove_file(at(name)).unwrap();
    }
    nix::unistd::mkfifo(&at("c"), Mode::S_IRWXU).unwrap();
    fs::create_dir(at("d")).unwrap();
    let rest: Vec<(PathBuf, FileRead)> = reads.collect();
    let names: Vec<&Path> = rest.iter().map(|(path, _)| path.as_path()).collect();
    assert_eq!(names, [at("c"), at("d"), at("e")]);
    assert!(matches!(&rest[0].1, FileRead::Unusable(why) if why.contains("named pipe")));
    assert!(matches!(&rest[1].1, FileRead::Unusable(why) if why.contains("directory")));
    assert!(matches!(&rest[2].1, FileRead::Bytes(..)));
}

#[test]
fn a_replaced_directory_is_read_again() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (directory, image) in [("manifests", "one"), ("next", "two")] {
        fs::create_dir(at(directory)).unwrap();
        let file = at(directory).join("a.yaml");
        fs::write(&file, pod("a", image)).unwrap();
        // Same name, size and timestamps: only the inode differs.
        fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    }
    let mut source = Source::new();
    source.pass(&at("manifests"), later());
    assert_eq!(source.images(), ["one"]);
    fs::rename(at("manifests"), at("old")).unwrap();
    source.pass(&at("manifests"), later());
    assert_eq!(source.images(), Vec::<String>::new());
    fs::rename(at("next"), at("manifests")).unwrap();
    source.pass(&at("manifests"), later());
    assert_eq!(source.images(), ["two"]);
}

#[test]
fn files_with_future_timestamps_are_read_and_their_edits_seen() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.yaml");
    let mut source = Source::new();
    for image in ["one", "two"] {
        fs::write(&file, pod("a", image)).unwrap();
        let future = SystemTime::now() + Duration::from_secs(10 * 365 * 86_400);
        fs::File::options().write(true).open(&file).unwrap().set_modified(future).unwrap();
        source.pass(directory.path(), Timestamp::now());
        assert_eq!(source.images(), [image]);
        let known = source.pods();
        source.pass(directory.path(), Timestamp::now());
        assert!(Arc::ptr_eq(&known[0], &source.pods()[0]), "read again, but not another pod");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// However the clock jumps between passes, the state equals the content of the files.
    #[test]
    fn no_clock_hides_an_edit(steps in proptest::collection::vec((0_usize..3, -86_400_i64..=86_400), 1..20)) {
        let directory = tempfile::tempdir().unwrap();
        let mut source = Source::new();
        let mut images = [None::<String>, None, None];
        for (round, (file, step)) in steps.into_iter().enumerate() {
            // Every content has a different size, since the filesystem's clock does not jump with the reader's.
            let image = format!("i{}", "x".repeat(round));
            fs::write(directory.path().join(file.to_string()), pod(&format!("p{file}"), &image)).unwrap();
            images[file] = Some(image);
            source.pass(directory.path(), Timestamp::now() + step.seconds());
            prop_assert_eq!(source.images(), images.iter().flatten().cloned().collect::<Vec<_>>());
        }
    }
}
