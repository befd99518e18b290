//! Random writes, rotations, kills and readers: no line is lost or doubled, except for lines in files that a rotation removes.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use flate2::read::GzDecoder;
use futures::StreamExt;
use hostlet_observe::log::{LogOptions, LogStreaming, LogWatches, RotatedForm, RotatedLog, Until};
use jiff::civil::date;
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use super::files::{prepare, rename};

/// More files than any history has.
const NEVER_REMOVED: usize = 50;

/// A step of a history.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The container writes lines.
    Write(u8),
    /// A whole rotation.
    Rotate,
    /// A rotation whose daemon is killed at a step.
    Killed(Kill),
    /// Somebody begins to follow the log.
    Follow,
    /// Somebody reads the log, or as many last lines.
    Read(Option<u8>),
}

/// Where a daemon is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// With a half-written compressed file.
    Compressing,
    /// With a compressed file beside the plain one.
    Compressed,
    /// Before the runtime reopens the renamed log.
    Renamed,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u8..20).prop_map(Step::Write),
        3 => Just(Step::Rotate),
        1 => prop_oneof![Just(Kill::Compressing), Just(Kill::Compressed), Just(Kill::Renamed)].prop_map(Step::Killed),
        1 => Just(Step::Follow),
        2 => proptest::option::of(0u8..60).prop_map(Step::Read),
    ]
}

/// A log with a runtime that writes to the file it has open.
struct World {
    dir: TempDir,
    max_files: usize,
    open: File,
    written: u64,
    second: i8,
}

impl World {
    fn new(max_files: usize) -> Self {
        let dir = TempDir::new().unwrap();
        let open = opened(&dir.path().join("0.log"));
        Self { dir, max_files, open, written: 0, second: 0 }
    }

    /// The number of the first line that is in a file.
    fn first(&self) -> u64 {
        let entries = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let firsts = entries.filter_map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let form = RotatedLog::parse(name, "0.log").map_or(RotatedForm::Plain, |rotated| rotated.form);
            let (file, mut text) = (File::open(&path).unwrap(), String::new());
            match form {
                RotatedForm::Plain => (&file).read_to_string(&mut text).unwrap(),
                RotatedForm::Compressed => GzDecoder::new(file).read_to_string(&mut text).unwrap(),
                RotatedForm::Unfinished => return None,
            };
            text.lines().next()?.rsplit(' ').next()?.parse().ok()
        });
        firsts.min().unwrap_or(self.written)
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("0.log")
    }

    fn write(&mut self, count: u8) {
        for _ in 0..count {
            let line = format!("2026-01-01T00:00:00Z stdout F {}\n", self.written);
            self.open.write_all(line.as_bytes()).unwrap();
            self.written += 1;
        }
        make_old(&self.open);
    }

    fn rotate(&mut self, kill: Option<Kill>) {
        self.second += 1;
        let now = date(2026, 1, 1).at(0, self.second / 60, self.second % 60, 0);
        if !self.log().exists() {
            self.open = opened(&self.log());
            return;
        }
        let plain: Vec<PathBuf> =
            fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let plain = plain.into_iter().find(|path| {
            let rotated = RotatedLog::parse(path.file_name().unwrap().to_str().unwrap(), "0.log");
            rotated.is_some_and(|rotated| rotated.form == RotatedForm::Plain)
        });
        match (kill, plain) {
            (Some(Kill::Compressing), Some(plain)) => {
                fs::write(plain.with_added_extension("tmp"), "half").unwrap();
                return;
            }
            (Some(Kill::Compressed), Some(plain)) => {
                let text = fs::read(&plain).unwrap();
                prepare(&self.log(), self.max_files, now).unwrap();
                fs::write(&plain, text).unwrap();
                make_old(&File::open(plain).unwrap());
                return;
            }
            (Some(_) | None, _) => {}
        }
        let (rotated, failure) = prepare(&self.log(), self.max_files, now).unwrap();
        assert!(failure.is_none(), "{failure:?}");
        rename(&self.log(), &rotated).unwrap();
        match kill {
            Some(Kill::Renamed) => {}
            Some(Kill::Compressing | Kill::Compressed) | None => self.open = opened(&self.log()),
        }
    }
}

/// Readers wait for late writes to a file that was written recently.
fn make_old(file: &File) {
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
}

fn opened(path: &PathBuf) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

async fn read(log: LogStreaming) -> String {
    let pieces: Vec<_> = log.into_stream().collect().await;
    let text: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap()).collect();
    String::from_utf8(text).unwrap()
}

/// The lines from this number to the last one.
fn lines(from: u64, to: u64) -> String {
    (from..to).map(|number| format!("{number}\n")).collect()
}

async fn live(steps: Vec<Step>, max_files: usize) {
    let mut world = World::new(max_files);
    let mut followers: Vec<(oneshot::Sender<()>, JoinHandle<String>)> = Vec::new();
    for step in steps {
        match step {
            Step::Write(count) => world.write(count),
            Step::Rotate => world.rotate(None),
            Step::Killed(kill) => world.rotate(Some(kill)),
            Step::Follow => {
                let (end, ended) = oneshot::channel();
                let until = Until::Ended(
                    Box::pin(async move { ended.await.unwrap_or_default() }),
                    LogWatches::default(),
                );
                let log = LogStreaming::open(world.log(), LogOptions::default(), until).await.unwrap();
                let following = async { read(log).await };
                followers.push((end, tokio::task::spawn_local(following)));
            }
            Step::Read(tail) => {
                let tail = tail.map(u64::from);
                let options = LogOptions { tail, ..LogOptions::default() };
                let log = LogStreaming::open(world.log(), options, Until::Now).await.unwrap();
                let first = tail.map_or(0, |tail| world.written.saturating_sub(tail));
                assert_eq!(read(log).await, lines(first.max(world.first()), world.written), "{tail:?}");
            }
        }
        // Gives followers a chance to read, and the writer one to be ahead of them.
        spawn_blocking(|| {}).await.unwrap();
    }
    for (end, following) in followers {
        drop(end);
        let followed = following.await.unwrap();
        if max_files == NEVER_REMOVED {
            assert_eq!(followed, lines(0, world.written));
        } else {
            let numbers: Vec<u64> = followed.lines().map(|line| line.parse().unwrap()).collect();
            assert!(numbers.is_sorted_by(|earlier, later| earlier < later), "{numbers:?}");
            assert!(followed.ends_with(&lines(world.first(), world.written)), "{numbers:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_lost_or_doubled(
        steps in proptest::collection::vec(step(), 1..30),
        max_files in prop_oneof![Just(NEVER_REMOVED), 2usize..5],
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, live(steps, max_files));
    }
}
