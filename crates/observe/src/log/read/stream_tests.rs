//! Streams of real files: rotation, ends, and concurrent writes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::reader::LogReader;
use super::{LogOptions, LogStreaming, LogWatches, Until};
use crate::log::LogError;

/// Timeout of expected events.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: TempDir::new().unwrap() };
        fs::write(bench.log(), "").unwrap();
        bench
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("0.log")
    }

    /// Writes a line as the container.
    fn write(&self, text: &str) {
        self.write_to("0.log", text);
    }

    fn write_to(&self, file: &str, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.dir.path().join(file)).unwrap();
        writeln!(file, "2026-01-01T00:00:00Z stdout F {text}").unwrap();
    }

    /// Writes a file of this age in seconds.
    fn write_old(&self, file: &str, text: &[u8], age: u64) {
        let new = self.dir.path().join("new");
        fs::write(&new, text).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        OpenOptions::new().append(true).open(&new).unwrap().set_modified(time).unwrap();
        fs::rename(new, self.dir.path().join(file)).unwrap();
    }

    fn rename(&self, to: &str) {
        fs::rename(self.log(), self.dir.path().join(to)).unwrap();
    }
}

fn raw(text: &str) -> String {
    format!("2026-01-01T00:00:00Z stdout F {text}\n")
}

fn zipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

struct Reading {
    stream: Pin<Box<dyn Stream<Item = Result<Bytes, LogError>>>>,
    text: String,
}

impl Reading {
    async fn new(bench: &Bench, options: LogOptions, until: Until) -> Self {
        let stream = LogStreaming::open(bench.log(), options, until).await.unwrap().into_stream();
        Self { stream: Box::pin(stream), text: String::new() }
    }

    async fn follow(bench: &Bench, options: LogOptions) -> (Self, oneshot::Sender<()>) {
        let (end, ended) = oneshot::channel();
        let ended = async move {
            let _ = ended.await;
        };
        (Self::new(bench, options, Until::Ended(Box::pin(ended), LogWatches::default())).await, end)
    }

    /// Reads until the text ends with `end`.
    async fn until(&mut self, end: &str) -> &str {
        while !self.text.ends_with(end) {
            let piece = timeout(PATIENCE, self.stream.next()).await;
            let piece = piece.unwrap_or_else(|_| panic!("waiting for {end:?}, read {:?}", self.text));
            self.text += std::str::from_utf8(&piece.unwrap().unwrap()).unwrap();
        }
        &self.text
    }

    async fn rest(mut self) -> String {
        while let Some(piece) = timeout(PATIENCE, self.stream.next()).await.unwrap() {
            self.text += std::str::from_utf8(&piece.unwrap()).unwrap();
        }
        self.text
    }
}

#[tokio::test]
async fn without_following_it_stops_at_the_initial_end() {
    let bench = Bench::new();
    let line = "x".repeat(1000);
    (0..200).for_each(|_| bench.write(&line));
    let mut reading = Reading::new(&bench, LogOptions::default(), Until::Now).await;
    reading.until("\n").await;
    bench.write("later");
    assert_eq!(reading.rest().await, (line + "\n").repeat(200));

    let options = LogOptions { tail: Some(2), timestamps: true, ..LogOptions::default() };
    bench.write("last");
    let tail = Reading::new(&bench, options, Until::Now).await.rest().await;
    assert_eq!(tail, "2026-01-01T00:00:00.000000000Z later\n2026-01-01T00:00:00.000000000Z last\n");
}

#[tokio::test]
async fn a_missing_log_is_an_immediate_error() {
    let bench = Bench::new();
    let path = bench.dir.path().join("1.log");
    let error = LogStreaming::open(path, LogOptions::default(), Until::Now).await.err().unwrap();
    assert!(matches!(error, LogError::Open { .. }), "{error}");
}

#[tokio::test]
async fn following_continues_until_the_container_exits() {
    let bench = Bench::new();
    bench.write("before");
    bench.write("last");
    let options = LogOptions { tail: Some(1), ..LogOptions::default() };
    let (mut reading, end) = Reading::follow(&bench, options).await;
    assert_eq!(reading.until("last\n").await, "last\n");
    bench.write("more");
    assert_eq!(reading.until("more\n").await, "last\nmore\n");
    bench.write("at the end");
    end.send(()).unwrap();
    assert_eq!(reading.rest().await, "last\nmore\nat the end\n");
}

#[tokio::test]
async fn the_log_of_an_exited_container_is_read_completely() {
    let bench = Bench::new();
    let line = "x".repeat(1000);
    (0..200).for_each(|_| bench.write(&line));
    let until = Until::Ended(Box::pin(std::future::ready(())), LogWatches::default());
    let text = Reading::new(&bench, LogOptions::default(), until).await.rest().await;
    assert_eq!(text, (line + "\n").repeat(200));
}

#[tokio::test]
async fn following_finishes_a_rotated_file_and_continues_with_the_next() {
    let bench = Bench::new();
    bench.write("one");
    let (mut reading, end) = Reading::follow(&bench, LogOptions::default()).await;
    reading.until("one\n").await;
    bench.rename("0.log.20260101-000001");
    // The runtime has not reopened yet.
    bench.write_to("0.log.20260101-000001", "two");
    reading.until("two\n").await;
    bench.write("three");
    reading.until("three\n").await;
    // Two rotations at once, the first of them with a late line.
    bench.rename("0.log.20260101-000002");
    bench.write("five");
    bench.write_to("0.log.20260101-000002", "four");
    bench.rename("0.log.20260101-000003");
    bench.write("six");
    reading.until("six\n").await;
    bench.rename("0.log.20260101-000004");
    bench.write("seven");
    end.send(()).unwrap();
    assert_eq!(reading.rest().await, "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
}

#[tokio::test]
async fn a_truncated_log_is_read_from_its_start() {
    let bench = Bench::new();
    bench.write("a long line before the log was emptied");
    let (mut reading, end) = Reading::follow(&bench, LogOptions::default()).await;
    reading.until("emptied\n").await;
    fs::write(bench.log(), "").unwrap();
    bench.write("new");
    reading.until("\nnew\n").await;
    drop(end);
    assert_eq!(reading.rest().await, "a long line before the log was emptied\nnew\n");
}

#[tokio::test]
async fn rotated_and_compressed_files_are_read_before_the_current_one() {
    let bench = Bench::new();
    bench.write_old("0.log.20260101-000001.gz", &zipped(&(raw("one") + &raw("two"))), 600);
    bench.write_old("0.log.20260101-000002", raw("three").as_bytes(), 300);
    // Remains of a killed kubelet, and files of others.
    bench.write_old("0.log.20260101-000002.gz", &zipped(&raw("three")), 300);
    bench.write_old("0.log.20260101-000003.tmp", b"half", 300);
    bench.write_old("0.log.notes", b"other", 300);
    bench.write_old("10.log.20260101-000001", raw("other").as_bytes(), 300);
    bench.write("four");
    bench.write("five");
    let read = async |options| Reading::new(&bench, options, Until::Now).await.rest().await;
    assert_eq!(read(LogOptions::default()).await, "one\ntwo\nthree\nfour\nfive\n");
    let tail = async |lines| read(LogOptions { tail: Some(lines), ..LogOptions::default() }).await;
    assert_eq!((tail(0).await.as_str(), tail(1).await.as_str()), ("", "five\n"));
    assert_eq!(tail(3).await, "three\nfour\nfive\n");
    assert_eq!(tail(4).await, "two\nthree\nfour\nfive\n");
    assert_eq!(tail(9).await, "one\ntwo\nthree\nfour\nfive\n");
    let limited = LogOptions { tail: Some(4), limit: Some(6), ..LogOptions::default() };
    assert_eq!(read(limited).await, "two\nth");
    let (mut reading, end) = Reading::follow(&bench, LogOptions::default()).await;
    reading.until("five\n").await;
    drop(end);
    assert_eq!(reading.rest().await, "one\ntwo\nthree\nfour\nfive\n");
}

#[tokio::test]
async fn files_from_before_the_wanted_time_are_not_read() {
    let bench = Bench::new();
    // It would be shown if it were read.
    bench.write_old("0.log.20260101-000001", b"not a line of a runtime\n", 600);
    let now = Timestamp::now();
    let mut file = OpenOptions::new().append(true).open(bench.log()).unwrap();
    writeln!(file, "{now} stdout F new").unwrap();
    let since = now.checked_sub(SignedDuration::from_secs(60)).ok();
    let options = LogOptions { since, ..LogOptions::default() };
    assert_eq!(Reading::new(&bench, options, Until::Now).await.rest().await, "new\n");
}

#[tokio::test]
async fn a_damaged_compressed_file_hides_no_other() {
    let bench = Bench::new();
    let mut damaged = zipped(&raw("one"));
    damaged.truncate(damaged.len() - 9);
    bench.write_old("0.log.20260101-000001.gz", &damaged, 600);
    bench.write_old("0.log.20260101-000002.gz", b"", 600);
    bench.write("two");
    let read = async |options| Reading::new(&bench, options, Until::Now).await.rest().await;
    assert!(read(LogOptions::default()).await.ends_with("two\n"));
    assert!(read(LogOptions { tail: Some(5), ..LogOptions::default() }).await.ends_with("two\n"));
}

#[tokio::test]
async fn a_log_that_is_just_renamed_is_followed_from_its_new_name() {
    let bench = Bench::new();
    bench.write("one");
    bench.rename("0.log.20260101-000001");
    let (mut reading, end) = Reading::follow(&bench, LogOptions::default()).await;
    reading.until("one\n").await;
    bench.write("two");
    reading.until("two\n").await;
    drop(end);
    assert_eq!(reading.rest().await, "one\ntwo\n");
}

#[tokio::test]
async fn a_slow_reader_finds_what_was_compressed_meanwhile() {
    let bench = Bench::new();
    bench.write("one");
    let (mut reading, end) = Reading::follow(&bench, LogOptions::default()).await;
    reading.until("one\n").await;
    bench.rename("0.log.20260101-000001");
    bench.write_old("0.log.20260101-000001.gz", &zipped(&raw("one")), 60);
    fs::remove_file(bench.dir.path().join("0.log.20260101-000001")).unwrap();
    bench.write_old("0.log.20260101-000002.gz", &zipped(&raw("two")), 60);
    bench.write("three");
    reading.until("three\n").await;
    drop(end);
    assert_eq!(reading.rest().await, "one\ntwo\nthree\n");
}

#[test]
fn a_pipe_in_the_place_of_a_log_is_an_error() {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    let bench = Bench::new();
    mkfifo(&bench.dir.path().join("0.log.20260101-000000"), Mode::S_IRWXU).unwrap();
    let open = || LogReader::open(&bench.log(), &LogOptions::default(), false).map(drop);
    assert!(open().is_err());
    fs::remove_file(bench.dir.path().join("0.log.20260101-000000")).unwrap();
    open().unwrap();
    fs::remove_file(bench.log()).unwrap();
    mkfifo(&bench.log(), Mode::S_IRWXU).unwrap();
    assert!(open().is_err());
}
