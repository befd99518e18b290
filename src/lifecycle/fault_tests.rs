//! A whole node in memory of which parts fail: deletions that drag on, hung calls, calls that took effect unsaid, panics,
//! and daemons that end in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod, pod_with, seen_at};
use crate::cri::Operation;
use crate::cri::fake::{Failure, Fault, OnTerm, Rule, Script};
use crate::pod::pod_ref;
use crate::pod::{PodKill, PodPhase, StatusOverride};
use crate::types::{PodRef, PodUid};
use crate::worker::{Outcome, PodSyncer, Work, WorkerContext, WorkerState};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A call that is answered as timed out, and takes effect so much after it was made.
fn late(lands_after: Duration) -> Fault {
    Fault::LateSuccess { answer_after: 4 * SECOND, failure: Failure::TimedOut, lands_after }
}

/// A node on which these pods of one container `c` run.
async fn running(pods: &[(&str, &str)]) -> Node {
    let mut node = Node::new();
    node.want(pods.iter().map(|(name, uid)| pod(name, uid, &["c"])));
    node.until("all run", 5 * SECOND, |n| pods.iter().all(|(_, uid)| n.running(uid).len() == 1)).await;
    node
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_ends_within_its_grace_though_it_ignores_being_asked() {
    let mut node = Node::new();
    node.runtime.script("deaf", Script::forever().on_term(OnTerm::Ignores));
    node.want([pod("web", "u1", &["deaf", "c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 2).await;
    let asked = Instant::now();
    node.want([]);
    node.until("all are dead", MINUTE, |n| n.running("u1").is_empty()).await;
    let took = asked.elapsed();
    // The look before the stop may have to be a younger one.
    assert!(took >= 30 * SECOND && took <= 31 * SECOND, "{took:?}");
    node.until("nothing is left", MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
    node.until("nor told of", SECOND, |n| n.status("u1").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_to_end_for_good_ends_and_stays_ended_while_its_source_names_it() {
    let mut node = running(&[("web", "u1"), ("other", "u2")]).await;
    node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
    let asked = Instant::now();
    node.kill("u1", evicted());
    node.until("all are dead", MINUTE, |n| n.running("u1").is_empty()).await;
    assert!(asked.elapsed() <= 31 * SECOND, "{:?}", asked.elapsed());
    node.until("its content is gone", MINUTE, |n| !n.has("u1")).await;
    let status = node.status("u1").unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));

    sleep(10 * MINUTE).await;
    assert!(!node.has("u1"));
    assert_eq!(node.running("u2").len(), 1, "its neighbour is left alone");
}

#[tokio::test(start_paused = true)]
async fn what_the_node_needs_back_waits_for_no_other_pods_end() {
    // Of which a few at a time are told to end, and none ends before its grace period is over.
    let others: Vec<_> = (0..300).map(|pod| format!("a{pod:03}")).collect();
    for is_asked_before in [false, true] {
        let mut node = Node::new();
        node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
        let all = others.iter().map(String::as_str).chain(["needed"]);
        node.want(all.clone().map(|uid| pod(uid, uid, &["c"])));
        node.until("all run", MINUTE, |n| all.clone().all(|uid| n.running(uid).len() == 1)).await;
        // No look at them has to be waited for then.
        sleep(10 * SECOND).await;
        let kept = (!is_asked_before).then(|| pod("needed", "needed", &["c"]));
        node.want(kept);
        sleep(Duration::from_millis(1)).await;
        assert!(node.calls_of("needed", Operation::StopContainer).is_empty());
        let asked = Instant::now();
        node.kill("needed", evicted());
        let is_told = |n: &Node| !n.calls_of("needed", Operation::StopContainer).is_empty();
        node.until("it is told to end", MINUTE, is_told).await;
        let waited = node.calls_of("needed", Operation::StopContainer)[0].at - asked;
        assert!(waited < Duration::from_millis(100), "{waited:?}");
        let told =
            others.iter().filter(|uid| !node.calls_of(uid, Operation::StopContainer).is_empty()).count();
        assert!(told < others.len(), "all of them had places");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_whose_network_fails_do_not_keep_the_pod_from_its_start_that_mends_it() {
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
    // It waits for a place three times.
    node.until("the young one runs", 50 * SECOND, |n| n.running("young").len() == 1).await;
    let tries = || old.iter().map(|uid| node.calls_of(uid, Operation::RunSandbox).len()).min();
    let before = tries();
    sleep(10 * MINUTE).await;
    assert!(tries() > before, "and the others are still tried");
}

#[tokio::test(start_paused = true)]
async fn the_wish_to_end_a_pod_nobody_knows_is_no_matter() {
    let mut node = running(&[("web", "u1")]).await;
    node.kill("nobody", evicted());
    sleep(MINUTE).await;
    assert_eq!(node.running("u1").len(), 1);
    assert!(node.status("nobody").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_gives_back_what_it_held_before_its_remains_are_removed() {
    let mut node = running(&[("web", "u1")]).await;
    node.runtime.faults().add(Rule::new(Operation::RemoveContainer, Fault::Hang));
    node.want([]);
    let released = |n: &Node| n.told().iter().any(|told| told.has_released);
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
    let asked = Instant::now();
    node.want([]);
    node.until("nothing is left", MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
    let pause = node.calls_of("u1", Operation::StopSandbox)[0].at - asked;
    // The call has four seconds to end by itself.
    assert!(pause <= 5 * SECOND, "its sandbox was overlooked at first: {pause:?}");
    assert_eq!(node.calls_of("u1", Operation::CreateContainer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_while_its_sandbox_is_made_does_not_cut_the_call_short() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(SECOND)));
    node.want([pod("web", "u1", &["c"])]);
    node.until("its sandbox is asked for", SECOND, |n| !n.calls_of("u1", Operation::RunSandbox).is_empty())
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
async fn a_daemon_asked_to_end_finishes_the_call_it_is_at_and_the_next_goes_on_from_there() {
    for operation in [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer] {
        let mut node = Node::new();
        node.runtime.faults().add(Rule::new(operation, Fault::Delay(SECOND)));
        node.want([pod("web", "u1", &["c"])]);
        node.until("the call is made", MINUTE, |n| !n.calls_of("u1", operation).is_empty()).await;
        let asked = Instant::now();
        node.end().await;
        assert!(asked.elapsed() <= SECOND, "{operation:?}: {:?}", asked.elapsed());
        node.boot();
        node.until("it runs", MINUTE, |n| n.running("u1") == [("c".to_owned(), 0)]).await;
        assert_eq!(node.calls_of("u1", operation).len(), 1, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_does_not_keep_the_daemon_from_ending() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Hang));
    node.want([pod("web", "u1", &["c"])]);
    node.until("the call is made", SECOND, |n| !n.calls_of("u1", Operation::RunSandbox).is_empty()).await;
    let asked = Instant::now();
    node.end().await;
    assert!(asked.elapsed() < 5 * SECOND, "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_new_daemon_adopts_what_runs() {
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
async fn a_new_daemon_inherits_the_back_off() {
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
    // The pause was over while no daemon ran.
    node.until("and the next", 2 * SECOND, |n| starts(n) == 8).await;
    let calls = node.calls_of("u1", Operation::StartContainer);
    assert_eq!((calls[6].at - calls[5].at).as_secs(), 161);
    assert_eq!(node.containers().last().unwrap().attempt, 7);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_ended_while_a_pod_was_being_removed_is_continued() {
    let mut node = running(&[("web", "u1")]).await;
    node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
    node.want([]);
    sleep(10 * SECOND).await;
    node.stop().await;
    node.boot();
    node.until("nothing is left", 2 * MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_judged_an_orphan_before_all_sources_are_read() {
    // Several times: the sources may be read at the very moment of a pass of housekeeping.
    for _ in 0..10 {
        let mut node = running(&[("web", "u1"), ("left", "u2")]).await;
        node.stop().await;
        node.tell(false, []);
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
async fn a_call_that_hangs_blocks_its_own_pod_only() {
    for operation in [Operation::RunSandbox, Operation::StopContainer, Operation::ContainerStatus] {
        let mut node = running(&[("old", "u1")]).await;
        let hung = if operation == Operation::RunSandbox { "u2" } else { "u1" };
        node.runtime.faults().add(Rule::new(operation, Fault::Hang).pod(&hung.into()));
        // One pod goes, one comes; then others come and go.
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
async fn a_start_that_timed_out_and_took_effect_is_found_and_not_doubled() {
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
async fn what_lands_after_its_pod_was_removed_is_removed_too() {
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
async fn a_failing_runtime_is_tried_again_until_it_works() {
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

/// Performs the work, but panics at the first of one pod.
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
async fn a_panic_in_one_worker_is_tried_again_and_harms_nobody() {
    let mut node = Node::with(16, |context| {
        Arc::new(Panicky { context, uid: "u1", has_panicked: AtomicBool::new(false) })
    });
    node.want([pod("bad", "u1", &["c"]), pod("good", "u2", &["c"])]);
    node.until("the good one runs", SECOND, |n| n.running("u2").len() == 1).await;
    assert!(!node.has("u1"));
    node.until("the bad one too", 16 * SECOND, |n| n.running("u1").len() == 1).await;
}

/// Performs the work of all pods but `u1`, whose workers die, each in another way.
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
            // Goes off when the work is cancelled.
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
async fn a_worker_that_dies_is_followed_by_another() {
    let mut node = Node::with(16, |context| Arc::new(Mortal { context, workers: AtomicUsize::new(0) }));
    node.want([pod("bad", "u1", &["c"]), pod("good", "u2", &["c"])]);
    node.until("the good one runs", SECOND, |n| n.running("u2").len() == 1).await;
    assert!(!node.has("u1"), "its worker died before it had a memory");
    node.until("the bad one runs", 16 * SECOND, |n| n.running("u1").len() == 1).await;
    assert_eq!(node.calls_of("u1", Operation::StartContainer).len(), 1);
    // The end of the work that is cancelled for it is the end of its worker.
    node.want([pod("good", "u2", &["c"])]);
    node.until("the bad one is gone", 2 * MINUTE, |n| !n.has("u1") && n.status("u1").is_none()).await;
    assert_eq!(node.calls_of("u2", Operation::StartContainer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_static_uid_that_comes_again_runs_again() {
    let mut node = running(&[("web", "u1")]).await;
    node.want([]);
    sleep(Duration::from_millis(1)).await;
    node.want([pod("web", "u1", &["c"])]);
    sleep(2 * MINUTE).await;
    assert_eq!(node.running("u1").len(), 1, "{}", node.picture());

    // The same for one that had run to its end.
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
async fn what_met_a_runtime_that_was_away_waits_no_back_off() {
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
