//! Tests of who waits for a measurement of the disks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{FakeRuntime, Fault, Rule};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{DiskSettings, DiskStats};
use crate::log::LogLayout;
use crate::pleg::Cache;

const SECOND: Duration = Duration::from_secs(1);

fn stats(fake: &FakeRuntime, directory: &Path) -> (JoinSet<()>, CancellationToken, DiskStats) {
    let (task, stats) = DiskStats::new(DiskSettings {
        runtime: Arc::new(fake.clone()),
        images: Arc::new(fake.clone()),
        observed: Cache::default(),
        logs: LogLayout { pod_logs_dir: directory.to_owned(), containers_dir: directory.to_owned() },
        root_dir: directory.to_owned(),
        clock: WallClock::system(),
    });
    let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
    tasks.spawn(task.run(cancel.clone()));
    (tasks, cancel, stats)
}

#[tokio::test(start_paused = true)]
async fn only_who_has_nothing_of_the_last_minute_waits_for_the_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let fake = FakeRuntime::new();
    let (_tasks, _cancel, stats) = stats(&fake, directory.path());
    let calls = || fake.calls_of(Operation::ListContainerStats).len();
    let (first, same) = tokio::join!(stats.usage(), stats.usage());
    let first = first.unwrap();
    assert!(Arc::ptr_eq(&first, &same.unwrap()));
    sleep(SECOND * 9).await;
    assert!(Arc::ptr_eq(&first, &stats.usage().await.unwrap()));
    assert_eq!(calls(), 1, "recent");

    let slow = Fault::Delay(SECOND * 3);
    fake.faults().add(Rule::new(Operation::ListContainerStats, slow));
    sleep(SECOND * 2).await;
    let asked = Instant::now();
    assert!(Arc::ptr_eq(&first, &stats.usage().await.unwrap()));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    sleep(SECOND / 2).await;
    assert_eq!(calls(), 1, "not yet, so that the answer is made first");
    sleep(SECOND * 4).await;
    let second = stats.usage().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(calls(), 2, "made meanwhile");

    sleep(SECOND * 60).await;
    let asked = Instant::now();
    assert!(!Arc::ptr_eq(&second, &stats.usage().await.unwrap()));
    assert!(asked.elapsed() >= SECOND * 3);
    assert_eq!(calls(), 3, "the last one was too old");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_repeated_for_the_next_one_and_nobody_waits_for_a_task_that_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let fake = FakeRuntime::new();
    let (mut tasks, cancel, stats) = stats(&fake, directory.path());
    fake.faults().add(Rule::new(Operation::ListContainerStats, Fault::fail("no")).times(1));
    assert!(stats.usage().await.is_err());
    stats.usage().await.unwrap();
    cancel.cancel();
    tasks.join_next().await.unwrap().unwrap();
    sleep(SECOND * 60).await;
    assert_eq!(stats.usage().await.unwrap_err().to_string(), "nothing is measured any more");
}
