//! When an archive is due, and which problems are reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use nix::sys::stat::Mode;
use tokio::time::Instant;

use super::super::Digest;
use super::{Archives, ListedArchive, Outcome, Report, Stamp, Target, list};

const EPOCH: Timestamp = Timestamp::UNIX_EPOCH;

fn listing(size: u64, quiet: bool) -> BTreeMap<PathBuf, ListedArchive> {
    let stamp = Stamp { device: 1, inode: 1, size, modified: (0, 0), changed: (0, 0) };
    BTreeMap::from([(PathBuf::from("a.tar"), ListedArchive { stamp, quiet })])
}

fn records() -> BTreeMap<String, Target> {
    let target = Target { media_type: String::new(), digest: Digest::of(b""), size: 0 };
    BTreeMap::from([("app:1".to_owned(), target)])
}

#[tokio::test(start_paused = true)]
async fn a_file_is_due_once_it_stops_changing() {
    let (mut archives, start) = (Archives::default(), Instant::now());
    let second = Duration::from_secs(1);
    let due = archives.take(&listing(1, false), start);
    assert_eq!((due.now.len(), due.next), (0, Some(start + 2 * second)));
    let due = archives.take(&listing(2, false), start + second);
    assert_eq!((due.now.len(), due.next), (0, Some(start + 3 * second)));
    assert_eq!(archives.take(&listing(2, false), start + 3 * second).now.len(), 1);
    assert_eq!(Archives::default().take(&listing(2, true), start).now.len(), 1);

    archives.record(Path::new("a.tar"), Outcome::Imported(records()), EPOCH);
    assert_eq!(archives.take(&listing(2, true), start + 9 * second).now.len(), 0);
    archives.again(Path::new("a.tar"));
    assert_eq!(archives.take(&listing(2, true), start + 9 * second).now.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_problem_is_reported_once_and_again_when_it_changes() {
    let (mut archives, now, path) = (Archives::default(), Instant::now(), Path::new("a.tar"));
    let broken = |text: &str| Outcome::Broken(text.to_owned());
    archives.take(&listing(1, true), now);
    assert_eq!(archives.record(path, broken("one"), EPOCH), Some(Report::Problem("one".to_owned())));
    assert!(archives.take(&listing(1, true), now).now.is_empty(), "broken until it changes");
    assert_eq!(archives.take(&listing(2, true), now).now.len(), 1);
    assert_eq!(archives.record(path, broken("one"), EPOCH), None);
    archives.take(&listing(3, true), now);
    let later = EPOCH + 1.hour();
    assert_eq!(archives.record(path, broken("two"), later), Some(Report::Problem("two".to_owned())));
    let reported = |archives: &Archives| {
        archives.problems().map(|problem| (problem.message, problem.since)).collect::<Vec<_>>()
    };
    assert_eq!(reported(&archives), [("two".to_owned(), later)]);
    archives.take(&listing(4, true), now);
    assert_eq!(archives.record(path, Outcome::Imported(records()), EPOCH), Some(Report::Imported));
    assert_eq!(reported(&archives), []);
    archives.take(&BTreeMap::new(), now);
    assert_eq!(archives.record(path, broken("gone"), EPOCH), None);
}

#[tokio::test(start_paused = true)]
async fn a_name_belongs_to_the_archive_imported_last() {
    let (mut archives, now) = (Archives::default(), Instant::now());
    let mut listed = listing(1, true);
    listed.insert("b.tar".into(), listed[Path::new("a.tar")]);
    archives.take(&listed, now);
    for path in ["a.tar", "b.tar"] {
        archives.record(Path::new(path), Outcome::Imported(records()), EPOCH);
    }
    let watched: Vec<_> = archives.imported().map(|(path, records)| (path.clone(), records.len())).collect();
    assert_eq!(watched, [("a.tar".into(), 0), ("b.tar".into(), 1)]);
}

#[test]
fn only_regular_files_named_like_archives_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    assert!(list(&at("none"), Timestamp::now()).unwrap().is_empty());
    for name in ["a.tar", "b.tar.gz", "c.tgz", ".d.tar", "e.tar.part", "f.tar.digest", "g", "k.tar.zst"] {
        fs::write(at(name), "").unwrap();
    }
    fs::create_dir(at("h.tar")).unwrap();
    nix::unistd::mkfifo(&at("i.tar"), Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("nowhere", at("j.tar")).unwrap();
    let quiet =
        |now| list(directory.path(), now).unwrap().into_values().map(|seen| seen.quiet).collect::<Vec<_>>();
    assert_eq!(quiet(Timestamp::now() + 1.hour()), [true; 4]);
    assert_eq!(quiet(Timestamp::now() - 1.hour()), [false; 4], "a clock that was set back says nothing");
}
