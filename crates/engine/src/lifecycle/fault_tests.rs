//! Faults on an in-memory node: slow deletions, hung calls, calls that take effect despite an error, panics, and killed daemons.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{PodRef, PodUid};
use hostlet_pod::pod_ref;
use hostlet_pod::{PodKill, PodPhase, StatusOverride};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Failure, Fault, OnTerm, Rule, Script};
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod, pod_with, seen_at};
use crate::worker::{Outcome, PodSyncer, Work, WorkerContext, WorkerState};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A call that times out but takes effect after this time.
fn late(lands_after: Duration) -> Fault {
    Fault::LateSuccess { answer_after: 4 * SECOND, failure: Failure::TimedOut, lands_after }
}

/// A node that runs these pods with one container `c`.
async fn running(pods: &[(&str, &str)]) -> Node {
    let mut node = Node::new();
    node.want(pods.iter().map(|(name, uid)| pod(name, uid, &["c"])));
    node.until("all run", 5 * SECOND, |n| pods.iter().all(|(_, uid)| n.running(uid).len() == 1)).await;
    node
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_terminates_within_its_grace_period_even_if_it_ignores_sigterm() {
    let mut node = Node::new();
    node.runtime.script("deaf", Script::forever().on_term(OnTerm::Ignores));
    node.want([pod("web", "u1", &["deaf", "c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 2).await;
    let requested_at = Instant::now();
    node.want([]);
    node.until("all are dead", MINUTE, |n| n.running("u1").is_empty()).await;
    let took = requested_at.elapsed();
    // The stop may need a newer relist.
    assert!(took >= 30 * SECOND && took <= 31 * SECOND, "{took:?}");
    node.until("nothing is left", MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
    node.until("removed from the reported pods", SECOND, |n| n.status("u1").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_pod_terminates_and_stays_terminated_while_its_source_has_it() {
    let mut node = running(&[("web", "u1"), ("other", "u2")]).await;
    node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
    let requested_at = Instant::now();
    node.kill("u1", evicted());
    node.until("all are dead", MINUTE, |n| n.running("u1").is_empty()).await;
    assert!(requested_at.elapsed() <= 31 * SECOND, "{:?}", requested_at.elapsed());
    node.until("its content is gone", MINUTE, |n| !n.has("u1")).await;
    let status = node.status("u1").unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));

    sleep(10 * MINUTE).await;
    assert!(!node.has("u1"));
    assert_eq!(node.running("u2").len(), 1, "its neighbour is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_the_node_needs_does_not_wait_for_other_stops() {
    // A few are stopped at a time, and none terminates before its grace period.
    let others: Vec<_> = (0..300).map(|pod| format!("a{pod:03}")).collect();
    for is_asked_before in [false, true] {
        let mut node = Node::new();
        node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
        let all = others.iter().map(String::as_str).chain(["needed"]);
        node.want(all.clone().map(|uid| pod(uid, uid, &["c"])));
        node.until("all run", MINUTE, |n| all.clone().all(|uid| n.running(uid).len() == 1)).await;
        // So that the kill does not wait for a relist.
        sleep(10 * SECOND).await;
        let kept = (!is_asked_before).then(|| pod("needed", "needed", &["c"]));
        node.want(kept);
        sleep(Duration::from_millis(1)).await;
        assert!(node.calls_of("needed", Operation::StopContainer).is_empty());
        let requested_at = Instant::now();
        node.kill("needed", evicted());
        let is_stopping = |n: &Node| !n.calls_of("needed", Operation::StopContainer).is_empty();
        node.until("it is being stopped", MINUTE, is_stopping).await;
        let waited = node.calls_of("needed", Operation::StopContainer)[0].at - requested_at;
        assert!(waited < Duration::from_millis(100), "{waited:?}");
        let reported =
            others.iter().filter(|uid| !node.calls_of(uid, Operation::StopContainer).is_empty()).count();
        assert!(reported < others.len(), "all of them had places");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_with_a_failing_network_do_not_block_the_pod_that_repairs_it() {
    let mut node = Node::with(2, |context| Arc::new(context));
    let hung = Fault::Fail { after: 20 * SECOND, failure: Failure::TimedOut };
    let old: Vec<_> = (0..10).map(|pod| format!("old{pod}")).collect();
    for uid in &old {
        node.runtime.faults().add(Rule::new(Operation::RunSandbox, hung.clone()).pod(&uid.as_str().into()));
    }
    let pods = || old.iter().map(|uid| seen_at(&pod(uid, uid, &["c"]), 0)).collect::<Vec<_>>();
    node.want(pods());
    sleep(10 * MINUTE).await;
    assert!(old.iter().all(|uid| node.calls_of(uid, Operation::RunSandbox).len() > 2), "each is tried again");
    let young = seen_at(&pod("young", "young", &["c"]), 600);
    node.want(pods().into_iter().chain([young]));
    // It passes the gate three times.
    node.until("the young one runs", 50 * SECOND, |n| n.running("young").len() == 1).await;
    let tries = || old.iter().map(|uid| node.calls_of(uid, Operation::RunSandbox).len()).min();
    let before = tries();
    sleep(10 * MINUTE).await;
    assert!(tries() > before, "and the others are still tried");
}

#[tokio::test(start_paused = true)]
async fn a_kill_of_an_unknown_pod_is_ignored() {
    let mut node = running(&[("web", "u1")]).await;
    node.kill("nobody", evicted());
    sleep(MINUTE).await;
    assert_eq!(node.running("u1").len(), 1);
    assert!(node.status("nobody").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_terminated_pod_releases_its_resources_before_its_remains_are_removed() {
    let mut node = running(&[("web", "u1")]).await;
    node.runtime.faults().add(Rule::new(Operation::RemoveContainer, Fault::Hang));
    node.want([]);
    let released = |n: &Node| n.reported().iter().any(|reported| reported.has_released);
    node.until("it has given back what it held", MINUTE, released).await;
    assert!(node.has("u1") && node.running("u1").is_empty());
}

fn evicted() -> PodKill {
    let status = StatusOverride {
        phase: PodPhase::Failed,
        reason: "Evicted".into(),
        message: "The node was low".into(),
        disruption: None,
    };
    PodKill { status, grace_seconds: None, evict: true }
}

#[tokio::test(start_paused = true)]
async fn a_pod_killed_while_its_start_hangs_is_stopped_soon() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::CreateContainer, Fault::Hang));
    node.want([pod("web", "u1", &["c"])]);
    node.until("it is being made", SECOND, |n| !n.sandboxes().is_empty()).await;
    let requested_at = Instant::now();
    node.want([]);
    node.until("nothing is left", MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
    let pause = node.calls_of("u1", Operation::StopSandbox)[0].at - requested_at;
    // The call has four seconds to finish.
    assert!(pause <= 5 * SECOND, "its sandbox was overlooked at first: {pause:?}");
    assert_eq!(node.calls_of("u1", Operation::CreateContainer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_during_its_sandbox_start_does_not_interrupt_the_call() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(SECOND)));
    node.want([pod("web", "u1", &["c"])]);
    node.until("its sandbox is requested", SECOND, |n| !n.calls_of("u1", Operation::RunSandbox).is_empty())
        .await;
    node.want([]);
    node.until("nothing is left", MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
    let made = node.calls_of("u1", Operation::RunSandbox);
    let stopped = node.calls_of("u1", Operation::StopSandbox);
    assert_eq!((made.len(), stopped.len()), (1, 1));
    assert!(made[0].ended_at.is_some_and(|made| made <= stopped[0].at), "{made:?}, {stopped:?}");
    assert!(node.calls_of("u1", Operation::CreateContainer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stopping_daemon_finishes_its_call_and_the_next_one_continues() {
    for operation in [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer] {
        let mut node = Node::new();
        node.runtime.faults().add(Rule::new(operation, Fault::Delay(SECOND)));
        node.want([pod("web", "u1", &["c"])]);
        node.until("the call is made", MINUTE, |n| !n.calls_of("u1", operation).is_empty()).await;
        let requested_at = Instant::now();
        node.end().await;
        assert!(requested_at.elapsed() <= SECOND, "{operation:?}: {:?}", requested_at.elapsed());
        node.boot();
        node.until("it runs", MINUTE, |n| n.running("u1") == [("c".to_owned(), 0)]).await;
        assert_eq!(node.calls_of("u1", operation).len(), 1, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_does_not_block_shutdown() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Hang));
    node.want([pod("web", "u1", &["c"])]);
    node.until("the call is made", SECOND, |n| !n.calls_of("u1", Operation::RunSandbox).is_empty()).await;
    let requested_at = Instant::now();
    node.end().await;
    assert!(requested_at.elapsed() < 5 * SECOND, "{:?}", requested_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_adopts_running_pods() {
    let mut node = running(&[("web", "u1"), ("db", "u2")]).await;
    let before = node.containers();
    for _ in 0..3 {
        node.stop().await;
        sleep(MINUTE).await;
        node.boot();
        sleep(5 * MINUTE).await;
    }
    assert_eq!(node.containers(), before);
    assert_eq!(node.changes_of("u1").len() + node.changes_of("u2").len(), 6);
    assert_eq!(node.phase("u1").as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_resumes_the_back_off() {
    let mut node = Node::new();
    node.runtime.script("c", Script::exits(SECOND, 1));
    node.want([pod("loop", "u1", &["c"])]);
    let starts = |n: &Node| n.calls_of("u1", Operation::StartContainer).len();
    node.until("the pause is 160 s", 5 * MINUTE, |n| starts(n) == 6).await;
    sleep(20 * SECOND).await;
    node.stop().await;
    node.boot();
    node.until("the next start", 3 * MINUTE, |n| starts(n) == 7).await;
    node.stop().await;
    sleep(10 * MINUTE).await;
    node.boot();
    // The back-off expired while no daemon ran.
    node.until("and the next", 2 * SECOND, |n| starts(n) == 8).await;
    let calls = node.calls_of("u1", Operation::StartContainer);
    assert_eq!((calls[6].at - calls[5].at).as_secs(), 161);
    assert_eq!(node.containers().last().unwrap().attempt, 7);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_finishes_the_removal_of_a_pod() {
    let mut node = running(&[("web", "u1")]).await;
    node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
    node.want([]);
    sleep(10 * SECOND).await;
    node.stop().await;
    node.boot();
    node.until("nothing is left", 2 * MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_counts_as_orphan_before_all_sources_are_ready() {
    // Several times, because the sources may become ready during housekeeping.
    for _ in 0..10 {
        let mut node = running(&[("web", "u1"), ("left", "u2")]).await;
        node.stop().await;
        node.set_desired(false, []);
        node.boot();
        sleep(10 * SECOND).await;
        assert_eq!((node.running("u1").len(), node.running("u2").len()), (1, 1));
        node.want([pod("web", "u1", &["c"])]);
        node.until("the orphan is gone", MINUTE, |n| {
            !n.has("u2") && n.directories().iter().all(|d| !d.contains("u2"))
        })
        .await;
        assert_eq!(node.running("u1"), [("c".to_owned(), 0)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_blocks_only_its_pod() {
    for operation in [Operation::RunSandbox, Operation::StopContainer, Operation::ContainerStatus] {
        let mut node = running(&[("old", "u1")]).await;
        let hung = if operation == Operation::RunSandbox { "u2" } else { "u1" };
        node.runtime.faults().add(Rule::new(operation, Fault::Hang).pod(&hung.into()));
        // One pod is removed, one is added; then others.
        node.want([pod("new", "u2", &["c"])]);
        sleep(MINUTE).await;
        node.want([pod("new", "u2", &["c"]), pod("third", "u3", &["c"])]);
        node.until("a third runs", 5 * SECOND, |n| n.running("u3").len() == 1).await;
        node.want([pod("new", "u2", &["c"])]);
        node.until("and goes", 10 * SECOND, |n| !n.has("u3")).await;
        assert_eq!(node.running("u2").len(), usize::from(hung != "u2"), "{operation}");
        node.runtime.faults().clear();
        node.runtime.faults().release();
        node.until("all is well", 2 * MINUTE, |n| n.running("u2").len() == 1 && !n.has("u1")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_timed_out_but_took_effect_is_adopted() {
    for operation in [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer] {
        for lands_after in [Duration::ZERO, 2 * SECOND, 30 * SECOND] {
            let mut node = Node::new();
            node.runtime.faults().add(Rule::new(operation, late(lands_after)).times(1));
            node.want([pod("web", "u1", &["c"])]);
            node.until("it runs", 2 * MINUTE, |n| n.running("u1").len() == 1).await;
            sleep(5 * MINUTE).await;
            let containers = node.containers();
            assert_eq!(containers.len(), 1, "{operation} after {lands_after:?}: {containers:?}");
            assert_eq!(node.running("u1"), [("c".to_owned(), 0)]);
            assert_eq!(node.sandboxes(), [("u1".to_owned(), 0, true)]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn late_effects_of_a_removed_pod_are_removed() {
    for operation in [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer] {
        let mut node = Node::new();
        node.runtime.faults().add(Rule::new(operation, late(MINUTE)).times(1));
        node.want([pod("web", "u1", &["c"])]);
        sleep(6 * SECOND).await;
        node.want([]);
        sleep(2 * MINUTE).await;
        node.until("nothing is left", 2 * MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_failing_runtime_are_retried_until_it_works() {
    let mut node = Node::new();
    for operation in [
        Operation::RunSandbox,
        Operation::CreateContainer,
        Operation::StartContainer,
        Operation::SandboxStatus,
        Operation::ListContainers,
    ] {
        node.runtime.faults().add(Rule::new(operation, Fault::fail("no space left")).times(2));
    }
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", 5 * MINUTE, |n| n.running("u1").len() == 1).await;
    for operation in [
        Operation::StopContainer,
        Operation::StopSandbox,
        Operation::RemoveContainer,
        Operation::RemoveSandbox,
    ] {
        node.runtime.faults().add(Rule::new(operation, Fault::fail("busy")).times(2));
    }
    node.want([]);
    node.until("nothing is left", 5 * MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
}

/// Performs the work, but panics at the first work of one pod.
struct Panicky {
    context: WorkerContext,
    uid: &'static str,
    has_panicked: AtomicBool,
}

#[async_trait]
impl PodSyncer for Panicky {
    fn state(&self, pod: &PodRef) -> WorkerState {
        self.context.state(pod)
    }

    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome {
        let pod = match work {
            Work::Sync(pod) | Work::Terminate { pod, .. } | Work::Finish { pod, .. } => pod_ref(pod),
            Work::Reap { pod, .. } => pod.clone(),
        };
        if pod.uid.as_str() == self.uid && !self.has_panicked.swap(true, Ordering::Relaxed) {
            panic!("on purpose");
        }
        self.context.perform(work, state).await
    }

    async fn news(&self) -> PodUid {
        self.context.news().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_worker_is_retried_and_affects_no_other_pod() {
    let mut node = Node::with(16, |context| {
        Arc::new(Panicky { context, uid: "u1", has_panicked: AtomicBool::new(false) })
    });
    node.want([pod("bad", "u1", &["c"]), pod("good", "u2", &["c"])]);
    node.until("the good one runs", SECOND, |n| n.running("u2").len() == 1).await;
    assert!(!node.has("u1"));
    node.until("the bad one too", 16 * SECOND, |n| n.running("u1").len() == 1).await;
}

/// Performs the work of all pods except `u1`, whose workers die in various ways.
struct Mortal {
    context: WorkerContext,
    workers: AtomicUsize,
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose");
        }
    }
}

#[async_trait]
impl PodSyncer for Mortal {
    fn state(&self, pod: &PodRef) -> WorkerState {
        if pod.uid.as_str() == "u1" && self.workers.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("on purpose");
        }
        self.context.state(pod)
    }

    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome {
        let outcome = self.context.perform(work, state).await;
        if let Work::Sync(pod) = work
            && pod_ref(pod).uid.as_str() == "u1"
            && outcome == (Outcome::Done { due: None })
        {
            // Panics when the work is cancelled.
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }
        outcome
    }

    async fn news(&self) -> PodUid {
        self.context.news().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_worker_is_replaced() {
    let mut node = Node::with(16, |context| Arc::new(Mortal { context, workers: AtomicUsize::new(0) }));
    node.want([pod("bad", "u1", &["c"]), pod("good", "u2", &["c"])]);
    node.until("the good one runs", SECOND, |n| n.running("u2").len() == 1).await;
    assert!(!node.has("u1"), "its worker died before it had a memory");
    node.until("the bad one runs", 16 * SECOND, |n| n.running("u1").len() == 1).await;
    assert_eq!(node.calls_of("u1", Operation::StartContainer).len(), 1);
    // The cancelled work panics, which kills its worker.
    node.want([pod("good", "u2", &["c"])]);
    node.until("the bad one is gone", 2 * MINUTE, |n| !n.has("u1") && n.status("u1").is_none()).await;
    assert_eq!(node.calls_of("u2", Operation::StartContainer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_removed_and_added_again_runs_again() {
    let mut node = running(&[("web", "u1")]).await;
    node.want([]);
    sleep(Duration::from_millis(1)).await;
    node.want([pod("web", "u1", &["c"])]);
    sleep(2 * MINUTE).await;
    assert_eq!(node.running("u1").len(), 1, "{}", node.picture());

    // The same for a completed one.
    node.runtime.script("job", Script::exits(SECOND, 0));
    let job = pod_with("job", "u2", "Never", &["job"]);
    for _ in 0..2 {
        node.want([job.clone()]);
        node.until("it ended", MINUTE, |n| n.phase("u2").as_deref() == Some("Succeeded")).await;
        node.want([]);
        node.until("nothing is left", MINUTE, |n| !n.has("u2") && n.status("u2").is_none()).await;
    }
    assert_eq!(node.calls_of("u2", Operation::StartContainer).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_of_an_unavailable_runtime_have_no_back_off() {
    let starts = [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer];
    let ends = [Operation::StopContainer, Operation::StopSandbox, Operation::RemoveSandbox];
    let away = |operation| {
        let failure = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
        Rule::new(operation, failure).times(1)
    };
    for operation in starts {
        let mut node = Node::new();
        node.runtime.faults().add(away(operation));
        node.want([pod("web", "u1", &["c"])]);
        node.until(operation.as_str(), 3 * SECOND, |n| n.running("u1").len() == 1).await;
    }
    for operation in ends {
        let mut node = running(&[("web", "u1")]).await;
        node.runtime.faults().add(away(operation));
        node.want([]);
        node.until(operation.as_str(), 5 * SECOND, |n| !n.has("u1")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_runtime_is_no_missed_heartbeat() {
    let mut node = running(&[("web", "u1")]).await;
    node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
    let frozen = [
        Operation::ListSandboxes,
        Operation::ListContainers,
        Operation::SandboxStatus,
        Operation::ContainerStatus,
        Operation::ContainerEvents,
        Operation::RunSandbox,
        Operation::StopContainer,
    ];
    for operation in frozen {
        node.runtime.faults().add(Rule::new(operation, Fault::Hang));
    }
    node.want([pod("new", "u2", &["c"])]);
    for second in 0..600 {
        sleep(SECOND).await;
        assert_eq!(node.heartbeats().check().await, Vec::<&str>::new(), "after {second} s");
    }
}
