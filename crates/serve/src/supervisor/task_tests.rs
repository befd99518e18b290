//! The task over values that a test changes, in paused time.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_engine::source::SourceState;
use hostlet_observe::pleg::Health;
use hostlet_observe::status::StatusCache;
use hostlet_pod::ApiState;
use hostlet_runtime::cri::{CriError, Operation};
use hostlet_telemetry::{ANSWER_LIMIT, Heartbeat, Heartbeats};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);

struct Bed {
    sent: Arc<Mutex<Vec<Notify>>>,
    heartbeats: Heartbeats,
    pleg: watch::Sender<Health>,
    manifests: watch::Sender<SourceState>,
    _api: watch::Sender<ApiState>,
    config: watch::Sender<ConfigState>,
    may_run: watch::Sender<bool>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bed {
    /// A daemon that may run pods.
    fn new(watchdog: Option<Duration>) -> Self {
        let bed = Self::at_first_start(watchdog);
        bed.may_run.send_replace(true);
        bed
    }

    fn at_first_start(watchdog: Option<Duration>) -> Self {
        let clock = WallClock::of_tokio("2026-11-24T07:00:00Z".parse().unwrap());
        let sent = Arc::new(Mutex::new(Vec::new()));
        let sink = sent.clone();
        let notifier = Notifier::new(move |notify| sink.lock().push(notify), watchdog);
        let heartbeats = Heartbeats::default();
        let (pleg, pleg_view) = watch::channel(Health { last_relist: Instant::now(), error: None });
        let (manifests, manifests_view) = watch::channel(SourceState::default());
        let (api, api_view) = watch::channel(ApiState { ready: true, ..ApiState::default() });
        let (config, config_view) = watch::channel(ConfigState::default());
        let (may_run, may_run_view) = watch::channel(false);
        let inputs = SupervisorInputs {
            heartbeats: heartbeats.clone(),
            status_cache: StatusCache::default(),
            pleg: pleg_view,
            manifests: manifests_view,
            api: api_view,
            config: config_view,
            start: StartDecision { may_run: may_run_view, patience: PATIENCE },
            clock,
        };
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(Supervisor::new(notifier, inputs).run(stop.clone(), CancellationToken::new()));
        Self { sent, heartbeats, pleg, manifests, _api: api, config, may_run, stop, tasks }
    }

    async fn ready(watchdog: Option<Duration>) -> Self {
        let bed = Self::new(watchdog);
        bed.manifests.send_modify(|manifests| manifests.ready = true);
        sleep(SECOND).await;
        bed
    }

    fn loop_that_answers(&mut self, heartbeat: Heartbeat) {
        self.tasks.spawn(async move {
            loop {
                heartbeat.asked().await;
            }
        });
    }

    fn fed(&self) -> usize {
        self.sent.lock().iter().filter(|notify| **notify == Notify::Watchdog).count()
    }

    fn last_line(&self) -> Option<String> {
        let line = |notify: &Notify| match notify {
            Notify::Status(line) => Some(line.clone()),
            Notify::Ready | Notify::Reloading | Notify::Stopping | Notify::Watchdog => None,
        };
        self.sent.lock().iter().rev().find_map(line)
    }
}

#[tokio::test(start_paused = true)]
async fn the_daemon_is_ready_once_the_manifests_are_read_or_take_too_long() {
    let bed = Bed::new(None);
    sleep(5 * SECOND).await;
    assert!(bed.sent.lock().is_empty());
    bed.manifests.send_modify(|manifests| manifests.ready = true);
    sleep(SECOND / 10).await;
    assert_eq!(bed.sent.lock()[0], Notify::Ready);
    let bed = Bed::new(None);
    sleep(11 * SECOND).await;
    assert_eq!(bed.sent.lock()[0], Notify::Ready);
    let line =
        "waiting for the container runtime since 2026-11-24 07:00:00 UTC; the manifests were not read yet";
    assert_eq!(bed.last_line().as_deref(), Some(line));
}

#[tokio::test(start_paused = true)]
async fn a_first_start_is_ready_once_it_is_decided_and_a_refused_one_never_is() {
    let first = async || {
        let bed = Bed::at_first_start(None);
        bed.manifests.send_modify(|manifests| manifests.ready = true);
        sleep(PATIENCE - SECOND).await;
        assert!(bed.sent.lock().is_empty());
        bed
    };
    let permitted = first().await;
    permitted.may_run.send_replace(true);
    sleep(SECOND / 10).await;
    assert_eq!(permitted.sent.lock()[0], Notify::Ready);

    let waiting = first().await;
    sleep(2 * SECOND).await;
    assert_eq!(waiting.sent.lock()[0], Notify::Ready, "the runtime may be away for long");

    let refused = first().await;
    refused.stop.cancel();
    drop(refused.may_run);
    sleep(SECOND).await;
    // What it still waits for may have been said at the same instant.
    let sent = refused.sent.lock();
    assert!(sent.contains(&Notify::Stopping) && !sent.contains(&Notify::Ready), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_a_change_and_without_a_watchdog() {
    let bed = Bed::ready(None).await;
    let before = bed.sent.lock().len();
    sleep(3600 * SECOND).await;
    assert_eq!(bed.sent.lock().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_line_follows_the_runtime_and_the_configuration() {
    let bed = Bed::ready(None).await;
    bed.pleg.send_replace(Health { last_relist: Instant::now(), error: None });
    sleep(2 * SECOND).await;
    assert_eq!(bed.last_line().as_deref(), Some("0 pods, 0 running"));
    let error = CriError::TimedOut { operation: Operation::ListSandboxes, deadline: SECOND };
    bed.pleg.send_modify(|health| health.error = Some(error));
    sleep(2 * SECOND).await;
    let away = "0 pods, 0 running; the container runtime does not respond since 2026-11-24 07:00:01 UTC";
    assert_eq!(bed.last_line().as_deref(), Some(away));
    bed.pleg.send_replace(Health { last_relist: Instant::now(), error: None });
    bed.config.send_replace(ConfigState::NeedsRestart);
    sleep(2 * SECOND).await;
    assert_eq!(bed.last_line().as_deref(), Some("0 pods, 0 running; a changed setting needs a restart"));
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_is_fed_while_every_loop_answers() {
    let mut bed = Bed::ready(Some(WATCHDOG)).await;
    let heartbeat = bed.heartbeats.register("pods");
    bed.loop_that_answers(heartbeat);
    sleep(10 * WATCHDOG).await;
    assert!((30..=32).contains(&bed.fed()), "{}", bed.fed());
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_come_back_starves_the_watchdog() {
    let mut bed = Bed::ready(Some(WATCHDOG)).await;
    let stuck = bed.heartbeats.register("pleg");
    // Asked at the next feed, overdue at the one after it.
    sleep(WATCHDOG).await;
    let before = bed.fed();
    sleep(2 * WATCHDOG).await;
    assert_eq!(bed.fed(), before);
    assert!(bed.last_line().unwrap().starts_with("not responding: pleg; "), "{:?}", bed.last_line());
    // A loop that comes back in time is forgiven.
    bed.loop_that_answers(stuck);
    sleep(WATCHDOG).await;
    assert!(bed.fed() > before);
    assert!(!bed.last_line().unwrap().contains("not responding"));
    assert!(ANSWER_LIMIT < WATCHDOG / 3);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_reported_and_the_watchdog_fed_meanwhile() {
    let bed = Bed::ready(Some(WATCHDOG)).await;
    bed.stop.cancel();
    sleep(SECOND / 10).await;
    assert!(bed.sent.lock().contains(&Notify::Stopping));
    let before = bed.fed();
    sleep(WATCHDOG).await;
    assert!(bed.fed() > before);
    assert_eq!(bed.last_line().as_deref(), Some("stopping; pods keep running"));
}
