//! Heartbeats under paused time.

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A loop that waits for something that never happens.
async fn idle(heartbeat: Heartbeat) {
    loop {
        heartbeat.asked().await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_metrics_ask_and_show_who_is_overdue() {
    let (heartbeats, metrics, mut tasks) = (Heartbeats::default(), Metrics::default(), JoinSet::new());
    heartbeats.register_metrics(&metrics);
    tasks.spawn(idle(heartbeats.register("pods")));
    let _stuck = heartbeats.register("pleg");
    let shows = |line: &str| metrics.encode().contains(&format!("hostlet_loop_overdue{line}\n"));
    assert!(shows("{loop=\"pleg\"} 0"));
    tokio::time::sleep(ANSWER_LIMIT).await;
    assert!(shows("{loop=\"pleg\"} 1") && shows("{loop=\"pods\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_waits_is_alive_without_being_woken() {
    let (heartbeats, mut tasks) = (Heartbeats::default(), JoinSet::new());
    tasks.spawn(idle(heartbeats.register("pods")));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(heartbeats.overdue(Instant::now()), Vec::<&str>::new());
    let before = Instant::now();
    assert_eq!(heartbeats.check().await, Vec::<&str>::new());
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_come_back_is_named() {
    let (heartbeats, mut tasks) = (Heartbeats::default(), JoinSet::new());
    tasks.spawn(idle(heartbeats.register("pods")));
    let stuck = heartbeats.register("pleg");
    let before = Instant::now();
    assert_eq!(heartbeats.check().await, ["pleg"]);
    assert_eq!(before.elapsed(), ANSWER_LIMIT);
    // It counts from the first question, not from the latest.
    heartbeats.ask(Instant::now());
    assert_eq!(heartbeats.overdue(Instant::now()), ["pleg"]);
    // The question waited for it.
    stuck.asked().await;
    assert_eq!(heartbeats.overdue(Instant::now()), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_loop_is_not_overdue_before_its_limit() {
    let heartbeats = Heartbeats::default();
    let _stuck = heartbeats.register("pleg");
    heartbeats.ask(Instant::now());
    sleep(ANSWER_LIMIT - SECOND).await;
    assert_eq!(heartbeats.overdue(Instant::now()), Vec::<&str>::new());
    sleep(SECOND).await;
    assert_eq!(heartbeats.overdue(Instant::now()), ["pleg"]);
}

#[tokio::test(start_paused = true)]
async fn an_announced_step_may_take_its_time_but_no_longer() {
    let heartbeats = Heartbeats::default();
    let slow = heartbeats.register("lease");
    slow.alive_for(60 * SECOND);
    let before = Instant::now();
    assert_eq!(heartbeats.check().await, Vec::<&str>::new());
    assert_eq!(before.elapsed(), Duration::ZERO);
    sleep(69 * SECOND).await;
    assert_eq!(heartbeats.overdue(Instant::now()), Vec::<&str>::new());
    sleep(SECOND).await;
    assert_eq!(heartbeats.overdue(Instant::now()), ["lease"]);
    // The next attempt is an answer, too.
    slow.alive_for(SECOND);
    assert_eq!(heartbeats.overdue(Instant::now()), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_loop_has_to_answer_once_it_is_resumed() {
    let heartbeats = Heartbeats::default();
    let held = heartbeats.register("pods");
    held.suspend();
    sleep(24 * 3600 * SECOND).await;
    assert_eq!(heartbeats.check().await, Vec::<&str>::new());
    held.resume();
    assert_eq!(heartbeats.check().await, ["pods"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_during_a_check_ends_it() {
    let heartbeats = Heartbeats::default();
    let (slow, mut tasks) = (heartbeats.register("admission"), JoinSet::new());
    tasks.spawn(async move {
        sleep(3 * SECOND).await;
        slow.asked().await;
    });
    let before = Instant::now();
    assert_eq!(heartbeats.check().await, Vec::<&str>::new());
    assert_eq!(before.elapsed(), 3 * SECOND);
}
