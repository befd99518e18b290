//! Shutdowns in paused time, with a scripted logind and pods that take their time to terminate.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_base::settings::GracefulShutdown;
use hostlet_observe::status::PublishProgress;
use k8s_openapi::api::core::v1::{Node, PodStatus};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::shutdown::testing::FakeLogind;

const SECOND: Duration = Duration::from_secs(1);
const CRITICAL: i32 = 2_000_000_000;
/// 2026-01-01T00:00:00Z.
const BASE: i64 = 1_767_225_600;

/// A pod, and how long it takes to terminate; `None` if it never does.
#[derive(Clone)]
struct TestPod {
    pod: Arc<AdmittedPod>,
    takes: Option<Duration>,
}

fn test_pod(name: &str, source: &str, priority: i32, takes: Option<u64>) -> TestPod {
    let mut pod = hostlet_pod::testing::pod(name, name, "Always", &["c"]);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), source.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.priority = Some(priority);
    spec.termination_grace_period_seconds = Some(30);
    TestPod { pod: AdmittedPod::new(pod), takes: takes.map(Duration::from_secs) }
}

fn api(name: &str, priority: i32, takes: u64) -> TestPod {
    test_pod(name, "api", priority, Some(takes))
}

/// What remains when the daemon is stopped.
struct Host {
    logind: FakeLogind,
    root: TempDir,
    store: Store,
    clock: WallClock,
    begun: Instant,
}

/// A running daemon, as far as a shutdown is concerned.
struct Daemon {
    desired_pods: watch::Sender<DesiredPods>,
    status_cache: StatusCache,
    outputs: ShutdownOutputs,
    events: Arc<Mutex<Vec<String>>>,
    /// What happened, with the second.
    log: Arc<Mutex<Vec<(String, u64)>>>,
    /// Whether the API server accepts statuses, and after how long.
    accepts_after: watch::Sender<Option<Duration>>,
    node: watch::Sender<Option<Arc<Node>>>,
    _tasks: JoinSet<()>,
}

impl Host {
    fn new(delay: u64) -> Self {
        Self {
            logind: FakeLogind::new(Duration::from_secs(delay)),
            root: tempfile::tempdir().unwrap(),
            store: Store::default(),
            clock: WallClock::of_tokio(Timestamp::from_second(BASE).unwrap()),
            begun: Instant::now(),
        }
    }

    /// Starts a daemon with 20 s for pods and 10 s for critical ones.
    fn boot(&self, pods: &[TestPod]) -> Daemon {
        self.boot_with(pods, Duration::from_secs(30), Duration::from_secs(10))
    }

    fn boot_with(&self, pods: &[TestPod], total: Duration, critical: Duration) -> Daemon {
        let config = GracefulShutdown { total, critical, by_priority: Vec::new(), is_recorded: true };
        let settings = ShutdownSettings {
            periods: ShutdownPeriods::new(&config),
            is_recorded: true,
            root_dir: self.root.path().to_owned(),
            etc: self.root.path().join("etc"),
        };
        let shutdown = Shutdown::new(settings, self.store.clone(), &Metrics::default());
        let outputs = shutdown.outputs();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (log, seen) = (Arc::new(Mutex::new(Vec::new())), events.clone());
        let (ended_in, ended_kills) = watch::channel(BTreeSet::new());
        let status_cache = StatusCache::default();
        let desired = pods.iter().map(|pod| pod.pod.clone()).collect();
        let desired_pods =
            watch::Sender::new(DesiredPods { ready: true, pods: desired, ..DesiredPods::default() });
        let statuses = watch::Sender::new(PublishProgress::default());
        let accepts_after = watch::Sender::new(Some(Duration::ZERO));
        let node = watch::Sender::new(None);
        let deps = ShutdownDeps {
            logind: Arc::new(self.logind.clone()),
            desired_pods: desired_pods.subscribe(),
            ended_kills,
            status_cache: status_cache.clone(),
            timeline: Timeline::default(),
            reports: Some(Reports { statuses: statuses.subscribe(), node: node.subscribe() }),
            events: Arc::new(move |event| seen.lock().push(event.message)),
            clock: self.clock.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(shutdown.run(deps, CancellationToken::new()));
        let lifecycles = Lifecycles {
            takes: pods.iter().map(|pod| (pod.pod.reference.uid.clone(), pod.takes)).collect(),
            desired_pods: desired_pods.subscribe(),
            demands: outputs.demands.clone(),
            status_cache: status_cache.clone(),
            ended: ended_in,
            log: log.clone(),
            begun: self.begun,
        };
        tasks.spawn(lifecycles.run());
        tasks.spawn(publish(status_cache.clone(), statuses, accepts_after.subscribe()));
        tasks.spawn(watch_locks(self.logind.locks(), log.clone(), self.begun));
        for pod in pods {
            status_cache.report(entry(&pod.pod, LifecycleSummary::Active));
        }
        Daemon { desired_pods, status_cache, outputs, events, log, accepts_after, node, _tasks: tasks }
    }

    fn state_file(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.root.path().join("graceful_node_shutdown_state")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn locks(&self) -> usize {
        *self.logind.locks().borrow()
    }
}

fn entry(pod: &Arc<AdmittedPod>, lifecycle: LifecycleSummary) -> PodStatusEntry {
    PodStatusEntry {
        pod: pod.clone(),
        status: Arc::new(PodStatus::default()),
        terminating_since: None,
        lifecycle,
        has_released: lifecycle == LifecycleSummary::Terminated,
    }
}

/// Stands in for admission and lifecycles: a killed pod terminates after its time or its grace period.
struct Lifecycles {
    takes: BTreeMap<PodUid, Option<Duration>>,
    desired_pods: watch::Receiver<DesiredPods>,
    demands: watch::Receiver<NodeShutdown>,
    status_cache: StatusCache,
    ended: watch::Sender<BTreeSet<PodUid>>,
    log: Arc<Mutex<Vec<(String, u64)>>>,
    begun: Instant,
}

impl Lifecycles {
    async fn run(mut self) {
        let mut killed: BTreeSet<PodUid> = BTreeSet::new();
        let mut stopping: FuturesUnordered<BoxFuture<'static, PodUid>> = FuturesUnordered::new();
        loop {
            let kills = self.demands.borrow_and_update().kills.clone();
            let pods = self.desired_pods.borrow().pods.clone();
            for pod in &pods {
                let uid = pod.reference.uid.clone();
                let Some(kill) = kills.get(&uid) else {
                    if killed.remove(&uid) {
                        self.note(format!("restart {uid}"));
                        self.ended.send_if_modified(|ended| ended.remove(&uid));
                        self.status_cache.report(entry(pod, LifecycleSummary::Active));
                    }
                    continue;
                };
                if !killed.insert(uid.clone()) {
                    continue;
                }
                let grace = kill.grace_seconds.unwrap_or(30);
                self.note(format!("kill {uid} {grace}"));
                // It has no time to stop: SIGKILL.
                let takes = self.takes.get(&uid).copied().unwrap_or(Some(SECOND));
                let takes = takes.map(|takes| takes.min(Duration::from_secs(grace.unsigned_abs())));
                stopping.push(Box::pin(async move {
                    match takes {
                        Some(takes) => sleep(takes).await,
                        None => std::future::pending().await,
                    }
                    uid
                }));
            }
            tokio::select! {
                changed = self.demands.changed() => if changed.is_err() { return },
                // A pod whose kill was withdrawn meanwhile has restarted.
                Some(uid) = stopping.next() => {
                    if !killed.contains(&uid) {
                        continue;
                    }
                    self.note(format!("end {uid}"));
                    if let Some(pod) = pods.iter().find(|pod| pod.reference.uid == uid) {
                        self.status_cache.report(entry(pod, LifecycleSummary::Terminated));
                    }
                    self.ended.send_if_modified(|ended| ended.insert(uid));
                }
            }
        }
    }

    fn note(&self, what: String) {
        self.log.lock().push((what, self.begun.elapsed().as_secs()));
    }
}

/// Stands in for the status manager.
async fn publish(
    status_cache: StatusCache,
    statuses: watch::Sender<PublishProgress>,
    mut accepts_after: watch::Receiver<Option<Duration>>,
) {
    let mut changes = status_cache.changes();
    loop {
        let version = *changes.borrow_and_update();
        statuses.send_replace(PublishProgress { version, behind: 1 });
        let pause = accepts_after.wait_for(Option::is_some).await.unwrap().unwrap_or_default();
        sleep(pause).await;
        statuses.send_replace(PublishProgress { version, behind: 0 });
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn watch_locks(mut locks: watch::Receiver<usize>, log: Arc<Mutex<Vec<(String, u64)>>>, begun: Instant) {
    let mut held = false;
    loop {
        let is_held = *locks.borrow_and_update() > 0;
        if held != is_held {
            let what = if is_held { "lock" } else { "release" };
            log.lock().push((what.to_owned(), begun.elapsed().as_secs()));
            held = is_held;
        }
        if locks.changed().await.is_err() {
            return;
        }
    }
}

impl Daemon {
    /// What happened, with the second.
    fn log(&self) -> Vec<(String, u64)> {
        self.log.lock().clone()
    }

    #[track_caller]
    fn logged(&self, expected: &[(&str, u64)]) {
        let expected: Vec<_> = expected.iter().map(|(what, second)| ((*what).to_owned(), *second)).collect();
        assert_eq!(self.log(), expected);
    }

    fn is_under_way(&self) -> bool {
        self.outputs.demands.borrow().is_under_way
    }

    fn kills(&self) -> Vec<String> {
        self.outputs.demands.borrow().kills.keys().map(ToString::to_string).collect()
    }

    fn unready(&self) -> Vec<String> {
        self.outputs.unready.borrow().clone()
    }
}

const DETECTED: &str = "Shutdown manager detected shutdown event";
const CANCELLED: &str = "Shutdown manager detected shutdown cancellation";

#[tokio::test(start_paused = true)]
async fn pods_end_by_priority_then_the_host_goes_down() {
    let host = Host::new(30);
    let pods = [
        api("vital", CRITICAL, 2),
        api("web", 0, 3),
        api("slow", 7, 19),
        test_pod("static", "file", CRITICAL + 1000, Some(1)),
    ];
    let daemon = host.boot(&pods);
    sleep(5 * SECOND).await;
    daemon.logged(&[("lock", 0)]);
    assert!(!daemon.is_under_way() && daemon.unready().is_empty());
    host.logind.prepare(true);
    sleep(SECOND / 2).await;
    assert!(daemon.is_under_way());
    assert_eq!(daemon.unready(), ["node is shutting down"]);
    let sentence = daemon.outputs.view.borrow().sentence().unwrap();
    assert!(sentence.contains("has been shutting down since 2026-01-01T00:00:05Z"), "{sentence}");
    assert_eq!(host.state_file()["endTime"], "0001-01-01T00:00:00Z");
    sleep(60 * SECOND).await;
    daemon.logged(&[
        ("lock", 0),
        ("kill web 20", 5),
        ("kill slow 20", 5),
        ("end web", 8),
        ("end slow", 24),
        ("kill vital 10", 24),
        ("kill static 10", 24),
        ("end static", 25),
        ("end vital", 26),
        ("release", 26),
    ]);
    assert_eq!(*daemon.events.lock(), [DETECTED]);
    let times = json!({"startTime": "2026-01-01T00:00:05Z", "endTime": "2026-01-01T00:00:26Z"});
    assert_eq!(host.state_file(), times);
    let kill = daemon.outputs.demands.borrow().kills[&PodUid::from("web")].clone();
    assert_eq!(
        (kill.status.phase, &*kill.status.reason, &*kill.status.message, kill.evict),
        (PodPhase::Failed, "Terminated", IMMINENT, false)
    );
    assert_eq!(kill.status.disruption.as_deref(), Some(IMMINENT));
    assert!(daemon.is_under_way(), "nothing starts until the host is down");
    let ended: Vec<PodUid> = EndedPods(host.store.clone()).all();
    assert_eq!(ended, ["slow", "vital", "web"].map(PodUid::from), "a static pod starts again with the host");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_end_costs_its_group_its_period_and_no_more() {
    let host = Host::new(30);
    let pods = [test_pod("hung", "api", 0, None), test_pod("vital", "api", CRITICAL, None)];
    let daemon = host.boot(&pods);
    host.logind.prepare(true);
    sleep(120 * SECOND).await;
    daemon.logged(&[("lock", 0), ("kill hung 20", 0), ("kill vital 10", 20), ("release", 30)]);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_pods_of_a_priority_does_not_wait_for_it() {
    let host = Host::new(30);
    let daemon = host.boot(&[api("vital", CRITICAL, 1)]);
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    daemon.logged(&[("lock", 0), ("kill vital 10", 0), ("end vital", 1), ("release", 1)]);
    let host = Host::new(30);
    let daemon = host.boot(&[]);
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    daemon.logged(&[("lock", 0), ("release", 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_admitted_late_ends_with_the_next_group() {
    let host = Host::new(30);
    let daemon = host.boot(&[api("web", 0, 5), api("vital", CRITICAL, 1)]);
    host.logind.prepare(true);
    sleep(SECOND).await;
    let late = api("late", 0, 1);
    daemon.status_cache.report(entry(&late.pod, LifecycleSummary::Active));
    daemon.desired_pods.send_modify(|desired| desired.pods.push(late.pod));
    sleep(60 * SECOND).await;
    let log = daemon.log();
    assert!(log.contains(&("kill late 10".to_owned(), 5)), "{log:?}");
    assert_eq!(log.last(), Some(&("release".to_owned(), 6)));
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_held_until_the_api_server_has_the_last_statuses() {
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let node = |value: &serde_json::Value| Some(Arc::new(serde_json::from_value(value.clone()).unwrap()));
    // The API server needs a while.
    let host = Host::new(30);
    let daemon = host.boot(&[api("web", 0, 3)]);
    daemon.accepts_after.send_replace(Some(4 * SECOND));
    sleep(10 * SECOND).await;
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    assert_eq!(daemon.log().last(), Some(&("release".to_owned(), 17)));
    // It never answers.
    let host = Host::new(60);
    let daemon = host.boot(&[api("web", 0, 3)]);
    daemon.accepts_after.send_replace(None);
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    assert_eq!(daemon.log().last(), Some(&("release".to_owned(), 13)), "for ten seconds at most");
    // It never answers, and the pods use up what logind grants.
    let host = Host::new(30);
    let daemon = host.boot(&[api("web", 0, 20), api("vital", CRITICAL, 9)]);
    daemon.accepts_after.send_replace(None);
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    assert_eq!(daemon.log().last(), Some(&("release".to_owned(), 30)));
    // The node is not reported as not ready yet.
    let host = Host::new(30);
    let daemon = host.boot(&[]);
    daemon.node.send_replace(node(&ready));
    host.logind.prepare(true);
    sleep(2 * SECOND).await;
    daemon.logged(&[("lock", 0)]);
    daemon
        .node
        .send_replace(node(&json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})));
    sleep(SECOND).await;
    daemon.logged(&[("lock", 0), ("release", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_can_be_cancelled_in_every_phase() {
    // During each group, while statuses are sent, and after the lock was released.
    for (cancelled_at, ended) in
        [(1, vec!["web"]), (5, vec!["vital", "web"]), (8, vec!["vital", "web"]), (30, vec!["vital", "web"])]
    {
        let host = Host::new(60);
        let pods = [api("web", 0, 4), test_pod("static", "file", 0, Some(2)), api("vital", CRITICAL, 3)];
        let daemon = host.boot(&pods);
        sleep(5 * SECOND).await;
        daemon.accepts_after.send_replace(Some(3 * SECOND));
        host.logind.prepare(true);
        sleep(cancelled_at * SECOND).await;
        host.logind.prepare(false);
        sleep(60 * SECOND).await;
        let case = format!("cancelled after {cancelled_at} s: {:?}", daemon.log());
        assert!(!daemon.is_under_way() && daemon.unready().is_empty(), "{case}");
        assert_eq!(daemon.outputs.view.borrow().sentence(), None, "{case}");
        assert_eq!(*daemon.events.lock(), [DETECTED, CANCELLED], "{case}");
        assert_eq!(host.locks(), 1, "{case}");
        assert_eq!(daemon.kills(), ended, "pods of the API server stay ended; {case}");
        assert!(daemon.log().iter().any(|(what, _)| what == "restart static"), "{case}");
        assert!(
            daemon.log().iter().all(|(what, _)| !what.starts_with("restart") || what == "restart static"),
            "{case}"
        );
        assert_ne!(host.state_file()["endTime"], "0001-01-01T00:00:00Z", "{case}");
        // The next one is as good as the first.
        daemon.accepts_after.send_replace(Some(Duration::ZERO));
        sleep(10 * SECOND).await;
        host.logind.prepare(true);
        sleep(60 * SECOND).await;
        assert_eq!(host.locks(), 0, "{case}");
        let kills = daemon.log().iter().filter(|(what, _)| what.starts_with("kill static")).count();
        assert_eq!(kills, 2, "{case}");
        assert_eq!(daemon.kills().len(), 3, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_taken_after_a_cancellation_survives_the_end_of_the_shutdown_before() {
    let inhibitor = Inhibitor::default();
    let logind = FakeLogind::new(SECOND);
    let session = logind.connect().await.unwrap();
    inhibitor.hold(0, session.inhibit().await.unwrap());
    inhibitor.hold(2, session.inhibit().await.unwrap());
    assert_eq!(*logind.locks().borrow(), 1, "the lock before is released");
    inhibitor.release(1);
    assert!(inhibitor.is_held());
    inhibitor.release(3);
    assert_eq!((inhibitor.is_held(), *logind.locks().borrow()), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_the_bus_is_survived_and_what_was_missed_is_noticed() {
    let host = Host::new(30);
    let daemon = host.boot(&[api("web", 0, 3)]);
    sleep(5 * SECOND).await;
    host.logind.set_away(true);
    sleep(SECOND / 2).await;
    assert_eq!(host.locks(), 1, "the lock does not depend on the bus");
    assert_eq!(daemon.outputs.view.borrow().problem, None, "it may only restart");
    host.logind.set_away(false);
    sleep(2 * SECOND).await;
    assert_eq!((host.locks(), host.logind.connects()), (1, 2));
    // A shutdown begins while the bus is away.
    host.logind.set_away(true);
    host.logind.prepare_silently(true);
    sleep(10 * SECOND).await;
    let problem = daemon.outputs.view.borrow().problem.clone().unwrap();
    assert!(problem.contains("start D-Bus and systemd-logind"), "{problem}");
    assert!(!daemon.is_under_way());
    host.logind.set_away(false);
    sleep(60 * SECOND).await;
    assert!(daemon.is_under_way() && daemon.outputs.view.borrow().problem.is_none());
    assert_eq!((host.locks(), daemon.kills()), (0, vec!["web".to_owned()]));
    // It is cancelled while the bus is away.
    host.logind.set_away(true);
    host.logind.prepare_silently(false);
    sleep(SECOND).await;
    host.logind.set_away(false);
    sleep(10 * SECOND).await;
    assert_eq!((daemon.is_under_way(), host.locks()), (false, 1));
    assert_eq!(*daemon.events.lock(), [DETECTED, CANCELLED]);
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_the_bus_during_a_shutdown_does_not_stop_it() {
    let host = Host::new(30);
    let daemon = host.boot(&[api("web", 0, 8), api("vital", CRITICAL, 1)]);
    host.logind.prepare(true);
    sleep(SECOND).await;
    host.logind.set_away(true);
    sleep(4 * SECOND).await;
    host.logind.set_away(false);
    sleep(60 * SECOND).await;
    let expected =
        [("kill web 20", 0), ("end web", 8), ("kill vital 10", 8), ("end vital", 9), ("release", 9)];
    daemon.logged(&[&[("lock", 0)], &expected[..]].concat());
    assert_eq!(*daemon.events.lock(), [DETECTED], "it is one shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_host_without_logind_says_so_and_looks_again_rarely() {
    let host = Host::new(30);
    host.logind.set_away(true);
    let mut daemon = host.boot(&[api("web", 0, 3)]);
    daemon.outputs.is_checked.wait_for(|is_checked| *is_checked).await.unwrap();
    sleep(SECOND / 2).await;
    let problem = daemon.outputs.view.borrow().sentence().unwrap();
    assert!(problem.starts_with("a shutdown of this host does not wait for the pods"), "{problem}");
    sleep(3600 * SECOND).await;
    let connects = host.logind.connects();
    assert!((10..25).contains(&connects), "{connects} attempts in an hour");
    assert!(!daemon.is_under_way() && daemon.kills().is_empty() && daemon.unready().is_empty());
    // It was installed.
    host.logind.set_away(false);
    sleep(400 * SECOND).await;
    assert_eq!((daemon.outputs.view.borrow().sentence(), host.locks()), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_logind_that_restarts_is_set_up_again() {
    let host = Host::new(30);
    let daemon = host.boot(&[api("web", 0, 100)]);
    sleep(5 * SECOND).await;
    host.logind.restart(Duration::from_secs(3));
    sleep(5 * SECOND).await;
    assert_eq!((host.locks(), host.logind.connects(), host.logind.reloads()), (1, 1, 1));
    let problem = daemon.outputs.view.borrow().problem.clone().unwrap();
    assert!(problem.contains("waits only 3 s for the pods instead of 30 s"), "{problem}");
    // Periods shrink to what is granted.
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    let log = daemon.log();
    assert!(log.contains(&("kill web 2".to_owned(), 10)), "{log:?}");
    assert_eq!(log.last(), Some(&("release".to_owned(), 12)));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_starts_during_a_shutdown_goes_on_with_it() {
    let host = Host::new(30);
    let first = host.boot(&[api("web", 0, 100), api("vital", CRITICAL, 1)]);
    host.logind.prepare(true);
    sleep(15 * SECOND).await;
    drop(first);
    tokio::task::yield_now().await;
    // logind gives no locks any more.
    host.logind.refuse_locks();
    let next = host.boot(&[api("web", 0, 100), api("vital", CRITICAL, 1)]);
    assert_eq!(next.kills(), ["web"], "it stays ended before logind answers");
    sleep(60 * SECOND).await;
    assert!(next.is_under_way());
    // Half of the time is left. This test's pods do not notice that their grace period shrinks.
    next.logged(&[("kill web 30", 15), ("kill vital 5", 25), ("end vital", 26), ("end web", 45)]);
    assert_eq!(host.state_file()["startTime"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_shutdown_ended_stay_ended_after_the_boot_until_they_are_deleted() {
    let host = Host::new(30);
    let pods = [api("web", 0, 1), test_pod("static", "file", 0, Some(1))];
    let daemon = host.boot(&pods);
    host.logind.prepare(true);
    sleep(20 * SECOND).await;
    drop(daemon);
    tokio::task::yield_now().await;
    // The host boots.
    host.logind.prepare_silently(false);
    let daemon = host.boot(&pods);
    assert_eq!(daemon.kills(), ["web"]);
    daemon.desired_pods.send_modify(|desired| {
        desired.ready = false;
        desired.pods.clear();
    });
    sleep(SECOND).await;
    assert_eq!(daemon.kills(), ["web"], "its source may still name it");
    daemon.desired_pods.send_modify(|desired| {
        desired.ready = true;
        desired.pods = vec![pods[1].pod.clone()];
    });
    sleep(SECOND).await;
    assert!(daemon.kills().is_empty() && EndedPods(host.store.clone()).all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_periods_nothing_is_delayed_and_earlier_rows_are_forgotten() {
    let host = Host::new(30);
    EndedPods(host.store.clone()).add(&"gone".into(), host.clock.now());
    let daemon = host.boot_with(&[api("web", 0, 1)], Duration::ZERO, Duration::ZERO);
    assert!(*daemon.outputs.is_checked.borrow());
    host.logind.prepare(true);
    sleep(60 * SECOND).await;
    assert_eq!((host.logind.connects(), daemon.kills()), (0, Vec::new()));
    assert!(EndedPods(host.store.clone()).all().is_empty());
}
