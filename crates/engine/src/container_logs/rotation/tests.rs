//! The task in paused time, with logs in a temporary directory; and rotation beside writers, readers and kills.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use flate2::read::GzDecoder;
use hostlet_base::WallClock;
use hostlet_base::settings::LogLimits;
use hostlet_base::testing::at;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Rule};
use hostlet_telemetry::Metrics;
use jiff::civil::date;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::error::RotationError;
use super::files::{prepare, rename, undo};
use super::task::{LogRotation, LogRotationDeps};
use crate::container_logs::testing::Running;

const PATIENCE: Duration = Duration::from_secs(600);
const INTERVAL: Duration = Duration::from_secs(10);

struct Bench {
    running: Running,
    events: Arc<Mutex<Vec<String>>>,
    metrics: Metrics,
    _tasks: JoinSet<()>,
}

impl Bench {
    async fn new(max_size: u64, max_files: usize) -> Self {
        let (running, events, metrics) =
            (Running::new().await, Arc::<Mutex<Vec<String>>>::default(), Metrics::default());
        let sink = events.clone();
        let deps = LogRotationDeps {
            runtime: Arc::new(running.fake.clone()),
            observed: running.pleg.cache().clone(),
            events: Arc::new(move |pod, _, event| sink.lock().push(format!("{pod} {event}"))),
            clock: WallClock::of_tokio(at(0)),
        };
        let limits = LogLimits { max_size, max_files, workers: 1, interval: INTERVAL };
        let mut tasks = JoinSet::new();
        tasks.spawn(LogRotation::new(limits, deps, &metrics).run(CancellationToken::new()));
        Self { running, events, metrics, _tasks: tasks }
    }

    fn reopened(&self) -> usize {
        self.running.fake.calls_of(Operation::ReopenLog).len()
    }

    async fn wait_for_reopened(&self, count: usize) {
        let waiting = async {
            while self.reopened() < count {
                sleep(Duration::from_secs(1)).await;
            }
            sleep(Duration::from_secs(1)).await;
        };
        timeout(PATIENCE, waiting).await.expect("the log was not reopened");
    }

    fn has_metric(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|found| found == line)
    }
}

fn unzipped(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn a_large_log_is_rotated_and_a_small_one_left_alone() {
    let bench = Bench::new(100, 5).await;
    bench.running.write("stdout F small");
    sleep(3 * INTERVAL).await;
    assert_eq!((bench.reopened(), bench.running.files().len()), (0, 1));
    bench.running.write(&format!("stdout F {}", "x".repeat(100)));
    bench.wait_for_reopened(1).await;
    let files = bench.running.files();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 2);
    assert!(names[0] == "0.log" && names[1].starts_with("0.log.197"), "{names:?}");
    assert!(files[0].1.is_empty() && files[1].1.starts_with(b"2026-01-01T00:00:00Z stdout F small\n"));
    sleep(3 * INTERVAL).await;
    assert_eq!(bench.reopened(), 1);
    assert!(bench.has_metric("hostlet_container_log_rotations_total 1"));
}

#[tokio::test(start_paused = true)]
async fn older_files_are_compressed_and_the_oldest_removed() {
    let bench = Bench::new(1, 4).await;
    for round in 1..=6 {
        bench.running.write(&format!("stdout F {round}"));
        bench.wait_for_reopened(round).await;
    }
    let files = bench.running.files();
    let forms: Vec<&str> = files.iter().map(|(name, _)| name.rsplit('.').next().unwrap()).collect();
    assert_eq!((forms.len(), forms[0], forms[1], forms[2]), (4, "log", "gz", "gz"));
    let line = |round| format!("2026-01-01T00:00:00Z stdout F {round}\n");
    assert_eq!((unzipped(&files[1].1), unzipped(&files[2].1)), (line(4), line(5)));
    assert_eq!(files[3].1, line(6).into_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_reopened_keeps_its_name_and_is_reported_once() {
    let bench = Bench::new(1, 5).await;
    bench.running.fake.faults().add(Rule::new(Operation::ReopenLog, Fault::fail("no")).times(3));
    bench.running.write("stdout F kept");
    bench.wait_for_reopened(1).await;
    assert_eq!(
        bench.running.files(),
        [("0.log".to_owned(), b"2026-01-01T00:00:00Z stdout F kept\n".to_vec())]
    );
    assert!(bench.events.lock().is_empty(), "it may have exited");
    bench.wait_for_reopened(3).await;
    let events = bench.events.lock().clone();
    assert_eq!(events.len(), 1);
    let expected = "default/web FailedLogRotation: Failed to rotate the log of container \"c\": ";
    assert!(events[0].starts_with(expected), "{events:?}");
    bench.wait_for_reopened(4).await;
    assert_eq!(bench.running.files().len(), 2);
    assert!(bench.has_metric("hostlet_container_log_rotation_errors_total 3"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_log_is_opened_again() {
    let bench = Bench::new(1000, 5).await;
    // As left by a daemon killed after the rename.
    let rotated = bench.running.dir.path().join("c/0.log.20260101-000000");
    std::fs::rename(bench.running.log(), &rotated).unwrap();
    bench.wait_for_reopened(1).await;
    let files = bench.running.files();
    assert_eq!(files.len(), 2);
    sleep(3 * INTERVAL).await;
    assert_eq!((bench.reopened(), bench.running.files()), (1, files));
}

#[tokio::test(start_paused = true)]
async fn a_hung_reopen_delays_no_look_at_other_logs_and_ends_with_its_deadline() {
    let bench = Bench::new(1, 5).await;
    let delay = Fault::Delay(Duration::from_secs(60));
    bench.running.fake.faults().add(Rule::new(Operation::ReopenLog, delay).times(1));
    bench.running.write("stdout F a");
    bench.wait_for_reopened(1).await;
    sleep(4 * INTERVAL).await;
    assert_eq!(bench.reopened(), 1, "the same log is not rotated twice at the same time");
    sleep(4 * INTERVAL).await;
    assert_eq!(bench.running.files().len(), 2);
}

#[test]
fn a_file_that_cannot_be_compressed_does_not_prevent_the_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("0.log");
    std::fs::write(&log, "now").unwrap();
    // It cannot be read.
    std::fs::create_dir_all(dir.path().join("0.log.20260101-000000/x")).unwrap();
    let (rotated, failure) = prepare(&log, 5, date(2026, 1, 2).at(0, 0, 0, 0)).unwrap();
    assert!(matches!(failure, Some(RotationError::Compress { .. })), "{failure:?}");
    assert_eq!(rotated, dir.path().join("0.log.20260102-000000"));
    assert!(!dir.path().join("0.log.20260101-000000.tmp").exists());
}

#[test]
fn a_rotated_log_that_somebody_replaced_is_neither_compressed_nor_waited_for() {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("0.log"), "now").unwrap();
    std::fs::write(at("secret"), "of the host").unwrap();
    symlink("secret", at("0.log.20260101-000000")).unwrap();
    mkfifo(&at("0.log.20260101-000001"), Mode::S_IRWXU).unwrap();
    let (_, failure) = prepare(&at("0.log"), 5, date(2026, 1, 2).at(0, 0, 0, 0)).unwrap();
    assert!(failure.is_some());
    assert!(!at("0.log.20260101-000000.gz").exists() && !at("0.log.20260101-000001.gz").exists());
    assert_eq!(std::fs::read(at("secret")).unwrap(), b"of the host");
}

#[test]
fn a_rename_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("0.log"), "old").unwrap();
    rename(&at("0.log"), &at("0.log.20260101-000000")).unwrap();
    assert!(undo(&at("0.log"), &at("0.log.20260101-000000")).unwrap());
    rename(&at("0.log"), &at("0.log.20260101-000000")).unwrap();
    std::fs::write(at("0.log"), "new").unwrap();
    assert!(!undo(&at("0.log"), &at("0.log.20260101-000000")).unwrap(), "the runtime has a new one");
    assert!(rename(&at("0.log"), &at("0.log.20260101-000000")).is_err());
    assert_eq!(std::fs::read(at("0.log")).unwrap(), b"new");
}
