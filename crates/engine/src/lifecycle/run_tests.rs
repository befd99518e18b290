//! Pods that start, crash and terminate on an in-memory node: the calls, their times, and the reported statuses.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{CONFIG_SOURCE_ANNOTATION, PodRef, PodUid, QuietPeriod};
use hostlet_observe::status::Activity;
use hostlet_pod::{DesiredPods, ManifestOrigin};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, OnTerm, Rule, Run, Script};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::testing::{Node, STARTS, pod, pod_with, seen_at};
use crate::gate::PendingStart;
use crate::source::{SourceState, StaticPod};
use crate::worker::{Content, Outcome, PodSyncer, RuntimeAccess, Work, WorkerContext, WorkerState};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Stopping, release and removal each need a newer relist. With paused time only the next second's counts.
const LOOKS: Duration = Duration::from_secs(3);
/// Tolerance for timers and polling of tests.
const SLACK: Duration = Duration::from_millis(5);

fn operations(node: &Node, uid: &str) -> Vec<Operation> {
    node.changes_of(uid).into_iter().map(|call| call.operation).collect()
}

fn starts(node: &Node, uid: &str) -> usize {
    node.calls_of(uid, Operation::StartContainer).len()
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_with_each_call_once_and_in_order() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["a", "b"])]);
    node.until("both containers run", SECOND, |n| n.running("u1").len() == 2).await;
    sleep(5 * MINUTE).await;
    let started = [
        Operation::RunSandbox,
        Operation::CreateContainer,
        Operation::StartContainer,
        Operation::CreateContainer,
        Operation::StartContainer,
    ];
    assert_eq!(operations(&node, "u1"), started);
    assert_eq!(node.running("u1"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    assert_eq!(node.phase("u1").as_deref(), Some("Running"));
    let statuses = node.status("u1").unwrap().container_statuses.clone().unwrap();
    assert!(statuses.iter().all(|s| s.ready && s.restart_count == 0), "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_was_removed_and_added_again_at_once_starts_again() {
    let mut node = Node::new();
    let web = pod("web", "u1", &["a"]);
    node.want([seen_at(&web, 1)]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    // The removal itself was never published.
    node.want([seen_at(&web, 2)]);
    node.until("it runs again", MINUTE, |n| n.running("u1") == [("a".to_owned(), 1)]).await;
    assert_eq!(node.calls_of("u1", Operation::StopContainer).len(), 1);
    let restarts = |n: &Node| Some(n.status("u1")?.container_statuses.as_ref()?.first()?.restart_count);
    node.until("its status counts it", SECOND, |n| restarts(n) == Some(1)).await;
    // Another definition with the same UID is none.
    let changed =
        seen_at(&web, 2).edited(|pod| pod.metadata.labels = Some([("a".into(), "b".into())].into()));
    node.want([changed]);
    sleep(MINUTE).await;
    assert_eq!(node.calls_of("u1", Operation::StopContainer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_changed_while_no_daemon_ran_waits_for_no_other_source() {
    let mut node = Node::new();
    let (old, new) = (pod("web", "u1", &["a"]), pod("web", "u2", &["a"]));
    let of_api = pod("api", "u3", &["a"]).edited(|pod| {
        let source = (CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
        pod.metadata.annotations.get_or_insert_default().extend([source]);
    });
    let all = [old.clone(), of_api];
    node.want(all.clone());
    let runs = |n: &Node, uid: &str| n.running(uid).len() == 1;
    node.until("both run", SECOND, |n| runs(n, "u1") && runs(n, "u3")).await;
    let origin = ManifestOrigin::File("/m/web.yaml".into());
    let manifest = StaticPod { pod: old.object().clone(), origin, unsupported: Vec::new() };
    let manifests = SourceState { ready: true, pods: vec![Arc::new(manifest)], problems: Vec::new() };
    node.note(&manifests, &DesiredPods { ready: true, pods: all.to_vec(), ..DesiredPods::default() });
    node.sync_store();
    node.stop().await;
    // The API server does not answer: it may be that very pod.
    node.set_desired(false, [new]);
    node.boot();
    node.until("the new one runs", MINUTE, |n| runs(n, "u2")).await;
    assert!(node.running("u1").is_empty() && runs(&node, "u3"));
    let (stop, start) =
        (node.calls_of("u1", Operation::StopContainer), node.calls_of("u2", Operation::RunSandbox));
    assert!(stop[0].at <= start[0].at, "one after the other");
}

/// On a full disk, an earlier daemon could not record its pods.
#[tokio::test(start_paused = true)]
async fn a_static_pod_waits_for_a_predecessor_that_only_the_runtime_knows() {
    for is_complete in [true, false] {
        let mut node = Node::new();
        node.runtime.script("a", Script::forever().on_term(OnTerm::Exits { after: 3 * SECOND, code: 0 }));
        node.want([pod("web", "u1", &["a"])]);
        node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
        node.stop().await;
        node.set_desired(is_complete, [pod("web", "u2", &["a"])]);
        node.boot();
        node.until("its successor runs", MINUTE, |n| {
            let both = n.running("u1").len() + n.running("u2").len();
            assert!(both <= 1, "both run");
            n.running("u2").len() == 1
        })
        .await;
        let (stop, start) =
            (node.calls_of("u1", Operation::StopContainer), node.calls_of("u2", Operation::RunSandbox));
        assert!(stop[0].at + 3 * SECOND <= start[0].at, "{stop:?} {start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_pod_is_made_before_it_is_recorded_and_what_runs_stays() {
    let mut node = Node::new();
    node.want([pod("old", "u1", &["a"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    node.stop().await;
    // A link to itself, as unusable as a full disk.
    let root = tempfile::tempdir().unwrap();
    let records = root.path().join("own-pods");
    symlink(&records, &records).unwrap();
    node.record_in(&records);
    node.boot();
    node.want([pod("old", "u1", &["a"]), pod("new", "u2", &["a"])]);
    sleep(MINUTE).await;
    assert_eq!((node.running("u1").len(), operations(&node, "u2")), (1, Vec::new()));
    let events = node.take_events();
    assert!(events.contains(&("u2".into(), "FailedMakePodDataDirectories".to_owned())), "{events:?}");
    fs::remove_file(&records).unwrap();
    node.until("the other one runs", MINUTE, |n| n.running("u2").len() == 1).await;
    assert!(records.join("u2").exists() && node.calls_of("u1", Operation::StopContainer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_is_put_back_waits_for_no_other_source() {
    let mut node = Node::new();
    let web = pod("web", "u1", &["a"]);
    let runs = |n: &Node| n.running("u1").len() == 1;
    // The API server has not answered since hostlet started: it may be that very pod.
    node.set_desired(false, [seen_at(&web, 1)]);
    node.until("it runs", SECOND, runs).await;
    node.set_desired(false, []);
    node.until("it is stopped", MINUTE, |n| n.running("u1").is_empty()).await;
    sleep(MINUTE).await;
    node.set_desired(false, [seen_at(&web, 2)]);
    node.until("it runs again", MINUTE, runs).await;
    // Without a pause.
    node.set_desired(false, [seen_at(&web, 3)]);
    let stops = |n: &Node| n.calls_of("u1", Operation::StopContainer).len();
    node.until("it was stopped, and runs again", MINUTE, |n| stops(n) == 2 && runs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn the_directory_of_a_kept_pod_is_retried_until_it_can_be_made() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    node.stop().await;
    let directory = node.root().join("pods/u1");
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::write(&directory, "in the way").unwrap();
    node.boot();
    node.until("it fails", SECOND, |n| n.events_of("u1", "FailedMakePodDataDirectories") == 1).await;
    sleep(MINUTE).await;
    std::fs::remove_file(&directory).unwrap();
    node.until("it is made", 3 * MINUTE, |_| directory.is_dir()).await;
    assert_eq!((starts(&node, "u1"), node.running("u1").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_a_second_for_the_runtimes_first_network_status() {
    let mut node = Node::new();
    node.clear_runtime_status();
    node.want([pod("web", "u1", &["c"])]);
    sleep(Duration::from_millis(900)).await;
    assert!(node.runtime.calls().iter().all(|call| call.operation != Operation::RunSandbox));
    node.set_runtime_ready();
    // A failure would be retried after a second.
    node.until("it starts at once", Duration::from_millis(50), |n| n.running("u1").len() == 1).await;

    node.clear_runtime_status();
    node.want([pod("late", "u2", &["c"])]);
    let failed = |n: &Node| match n.activity("u2") {
        Some(Activity::Retrying { error: Some(error) }) => error.contains("may not have completed yet"),
        _ => false,
    };
    let begin = Instant::now();
    node.until("that it waits is reported", 2 * SECOND, failed).await;
    assert!(begin.elapsed() >= SECOND, "{:?}", begin.elapsed());
    node.set_runtime_ready();
    node.until("it starts with the next try", 2 * SECOND, |n| n.running("u2").len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_has_exact_back_offs() {
    let mut node = Node::new();
    node.runtime.script("c", Script::exits(SECOND, 1));
    node.want([pod("loop", "u1", &["c"])]);
    sleep(30 * MINUTE).await;
    let starts = node.calls_of("u1", Operation::StartContainer);
    let ends = starts.iter().map(|call| call.at + SECOND);
    let pauses = ends.zip(&starts[1..]).map(|(end, next)| next.at - end);
    for (attempt, (pause, expected)) in pauses.zip([0, 10, 20, 40, 80, 160, 300, 300, 300, 300]).enumerate() {
        let expected = Duration::from_secs(expected);
        assert!(
            pause >= expected && pause <= expected + SLACK,
            "{attempt}: {pause:?} instead of {expected:?}"
        );
    }
    assert_eq!(starts.len(), 11);
    let status = node.status("u1").unwrap().container_statuses.clone().unwrap().remove(0);
    assert_eq!(status.state.unwrap().waiting.unwrap().reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(status.restart_count, 10);
    let kept = node.containers();
    assert!(kept.len() <= 2, "dead containers pile up: {kept:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_does_not_affect_others() {
    let mut node = Node::new();
    node.runtime.script("bad", Script::exits(SECOND, 1));
    node.want([pod("mixed", "u1", &["bad", "good"])]);
    sleep(10 * MINUTE).await;
    assert_eq!(node.running("u1"), [("good".to_owned(), 0)]);
    assert_eq!(node.calls_of("u1", Operation::RunSandbox).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_can_no_longer_be_started_backs_off() {
    let mut node = Node::new();
    let crash = |seconds| Run::Exits { after: Duration::from_secs(seconds), code: 1 };
    // Two crashes, a run of an hour, and then it cannot even be started.
    node.runtime.script(
        "c",
        Script::runs([crash(1), crash(1), crash(3600), Run::StartError("exec: not found".to_owned())]),
    );
    node.want([pod("web", "u1", &["c"])]);
    node.until("three starts", 2 * MINUTE, |n| n.calls_of("u1", Operation::StartContainer).len() == 3).await;
    sleep(3601 * SECOND).await;
    sleep(10 * MINUTE).await;
    let starts = node.calls_of("u1", Operation::StartContainer);
    let pauses: Vec<_> = starts[3..].windows(2).map(|w| (w[1].at - w[0].at).as_secs()).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160]);
}

#[tokio::test(start_paused = true)]
async fn completed_pods_are_reported_and_stay_terminated() {
    let mut node = Node::new();
    node.runtime.script("fine", Script::exits(SECOND, 0));
    node.runtime.script("bad", Script::exits(2 * SECOND, 3));
    let flaky = [Run::Exits { after: SECOND, code: 1 }, Run::Exits { after: SECOND, code: 0 }];
    node.runtime.script("flaky", Script::runs(flaky));
    node.want([
        pod_with("never-fine", "u1", "Never", &["fine"]),
        pod_with("never-bad", "u2", "Never", &["fine", "bad"]),
        pod_with("retried", "u3", "OnFailure", &["flaky", "fine"]),
    ]);
    sleep(10 * MINUTE).await;
    let phases = ["u1", "u2", "u3"].map(|uid| node.phase(uid).unwrap());
    assert_eq!(phases, ["Succeeded", "Failed", "Succeeded"]);
    assert_eq!(node.exit_codes("u2"), [("bad".to_owned(), 3), ("fine".to_owned(), 0)].into());
    assert_eq!(["u1", "u2", "u3"].map(|uid| starts(&node, uid)), [1, 2, 3]);
    assert_eq!(node.containers().len(), 5, "one dead instance of each container: {}", node.picture());
    assert!(node.sandboxes().iter().all(|(_, _, ready)| !ready), "an ended pod holds its network");

    // A restarted daemon recognizes them.
    node.stop().await;
    node.boot();
    sleep(5 * MINUTE).await;
    assert_eq!(["u1", "u2", "u3"].map(|uid| node.phase(uid).unwrap()), phases);
    assert_eq!(["u1", "u2", "u3"].map(|uid| starts(&node, uid)), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_sandbox_is_replaced_with_its_containers() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["a", "b"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 2).await;
    let sandbox = node.runtime.wire_sandboxes().remove(0).id;
    node.runtime.kill_sandbox(&sandbox.as_str().into());
    node.until("it runs anew", MINUTE, |n| n.running("u1") == [("a".to_owned(), 1), ("b".to_owned(), 1)])
        .await;
    sleep(5 * MINUTE).await;
    let ready: Vec<_> = node.sandboxes().into_iter().filter(|(.., ready)| *ready).collect();
    assert_eq!(ready, [("u1".to_owned(), 1, true)]);
}

/// A scheduler of tasks that runs the worker of one pod late.
struct LateWorker {
    context: WorkerContext,
    uid: &'static str,
}

#[async_trait]
impl PodSyncer for LateWorker {
    fn state(&self, pod: &PodRef) -> WorkerState {
        self.context.state(pod)
    }

    fn expect(&self, work: &Work) -> Option<PendingStart> {
        self.context.expect(work)
    }

    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome {
        if work.pod().uid.as_str() == self.uid {
            sleep(SECOND / 10).await;
        }
        self.context.perform(work, state).await
    }

    async fn news(&self) -> PodUid {
        self.context.news().await
    }
}

#[tokio::test(start_paused = true)]
async fn the_most_important_pod_starts_first_however_late_its_worker_runs() {
    let mut node = Node::with(1, |context| Arc::new(LateWorker { context, uid: "high" }));
    let of_priority = |uid: &str, priority: i32| {
        pod(uid, uid, &["c"]).edited(|pod| pod.spec.get_or_insert_default().priority = Some(priority))
    };
    node.want([of_priority("high", 9), of_priority("low", 1)]);
    let all_run = |n: &Node| ["high", "low"].iter().all(|uid| n.running(uid).len() == 1);
    node.until("both run", 5 * SECOND, all_run).await;
    let calls = node.runtime.calls().into_iter();
    let started: Vec<_> =
        calls.filter(|call| call.operation == Operation::RunSandbox).filter_map(|call| call.pod).collect();
    assert_eq!(started, ["high", "low"].map(PodUid::from));
}

/// Terminates pods immediately, before any housekeeping, and records what happens to their content.
struct Recorder {
    context: WorkerContext,
    ends: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl PodSyncer for Recorder {
    fn state(&self, pod: &PodRef) -> WorkerState {
        self.context.state(pod)
    }

    async fn news(&self) -> PodUid {
        self.context.news().await
    }

    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome {
        let end = match work {
            Work::Sync(_) => return self.context.perform(work, state).await,
            Work::Terminate { .. } => None,
            Work::Finish { content: Content::Keep, .. } => Some("kept"),
            Work::Finish { content: Content::Remove, .. } => Some("removed"),
            Work::Reap { .. } => Some("reaped"),
        };
        self.ends.lock().extend(end);
        Outcome::Done { due: None }
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_is_cleaned_up_without_waiting_for_housekeeping() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let recorded = ends.clone();
    let mut node = Node::with(16, move |context| Arc::new(Recorder { context, ends: recorded.clone() }));
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    node.want([]);
    node.until("it ends", 5 * SECOND, |_| !ends.lock().is_empty()).await;
    assert_eq!(ends.lock()[0], "removed");
}

#[tokio::test(start_paused = true)]
async fn remains_of_a_deleted_pod_are_removed_in_a_quiet_period() {
    let quiet_period = QuietPeriod::default();
    let shared = quiet_period.clone();
    let mut node = Node::with(16, move |context| {
        let runtime = RuntimeAccess { quiet_period: shared.clone(), ..context.runtime };
        Arc::new(WorkerContext { runtime, ..context })
    });
    let of_source = |name: &str, uid: &str, source: &str| {
        let source = (CONFIG_SOURCE_ANNOTATION.to_owned(), source.to_owned());
        pod(name, uid, &["c"]).edited(|pod| pod.metadata.annotations.get_or_insert_default().extend([source]))
    };
    node.want([of_source("of-api", "u1", "api"), of_source("of-file", "u2", "file")]);
    node.until("both run", SECOND, |n| n.running("u1").len() + n.running("u2").len() == 2).await;
    node.want([]);
    let others_start = async {
        loop {
            quiet_period.note_work();
            sleep(SECOND / 10).await;
        }
    };
    let seen = async {
        node.until("the static pod, which a successor may wait for, is gone", LOOKS, |n| !n.has("u2")).await;
        sleep(5 * SECOND).await;
        assert!(node.has("u1") && node.running("u1").is_empty());
    };
    tokio::select! {
        () = others_start => panic!("it never ends"),
        () = seen => {}
    }
    node.until("the other one is gone too", LOOKS, |n| !n.has("u1") && n.directories().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn an_edited_static_pod_starts_only_after_the_old_one_terminated() {
    let mut node = Node::new();
    let ignores = Script::forever().on_term(OnTerm::Ignores);
    node.runtime.script("c", ignores);
    node.want([pod("web", "old", &["c"])]);
    node.until("the old one runs", SECOND, |n| n.running("old").len() == 1).await;
    node.want([pod("web", "new", &["c"])]);
    node.until("the new one runs", 2 * MINUTE, |n| n.running("new").len() == 1).await;
    let stopped = node.calls_of("old", Operation::StopContainer).remove(0);
    let last_of_old = node.changes_of("old").into_iter().map(|c| c.ended_at.unwrap()).max().unwrap();
    let first_of_new = node.changes_of("new").remove(0);
    assert_eq!(first_of_new.operation, Operation::RunSandbox);
    assert!(last_of_old <= first_of_new.at, "the old pod was not gone yet");
    let pause = first_of_new.at - stopped.at;
    let grace = Duration::from_secs(30);
    assert!(pause >= grace && pause <= grace + LOOKS, "{pause:?}");
    node.until("nothing of the old one is left", MINUTE, |n| {
        !n.has("old") && n.directories().iter().all(|d| !d.contains("old"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_gate_admits_a_limited_number_oldest_first() {
    let mut node = Node::with(2, |context| std::sync::Arc::new(context));
    for operation in STARTS {
        node.runtime.faults().add(Rule::new(operation, Fault::Delay(SECOND)));
    }
    let pods: Vec<_> =
        (0..8).map(|i| seen_at(&pod(&format!("p{i}"), &format!("u{i}"), &["c"]), 1_000_000 - i)).collect();
    node.want(pods);
    node.until("all run", 2 * MINUTE, |n| (0..8).all(|i| n.running(&format!("u{i}")).len() == 1)).await;
    assert_eq!(node.runtime.peak_in_flight(&STARTS), 2);
    let finished = |i: usize| node.calls_of(&format!("u{i}"), Operation::StartContainer)[0].ended_at.unwrap();
    // The first two enter without waiting; then the oldest waiting one goes first.
    let waited: Vec<_> = (0..8).map(finished).collect();
    assert!(waited[7] < waited[4] && waited[6] < waited[3] && waited[5] < waited[2], "{waited:?}");
}

/// After a reboot a pod must stop its dead sandbox before it can start, which may take long for the important one.
#[tokio::test(start_paused = true)]
async fn after_a_reboot_an_important_pod_starts_first_even_if_its_clean_up_takes_long() {
    let mut node = Node::with(1, |context| Arc::new(context));
    let critical = pod("critical", "u1", &["c"]);
    let critical = critical.edited(|pod| pod.spec.as_mut().unwrap().priority = Some(2_000_000_000));
    node.want([critical, pod("minor", "u2", &["c"])]);
    let run = |attempt| {
        move |n: &Node| ["u1", "u2"].iter().all(|uid| n.running(uid) == [("c".to_owned(), attempt)])
    };
    node.until("both run", MINUTE, run(0)).await;
    node.stop().await;
    for sandbox in node.runtime.wire_sandboxes() {
        node.runtime.kill_sandbox(&sandbox.id.as_str().into());
    }
    let slow = Rule::new(Operation::StopSandbox, Fault::Delay(SECOND)).pod(&"u1".into());
    node.runtime.faults().add(slow);
    node.boot();
    node.until("both run again", MINUTE, run(1)).await;
    let made: Vec<_> =
        node.runtime.calls_of(Operation::RunSandbox).into_iter().filter_map(|call| call.pod).collect();
    assert_eq!(made[2..], [PodUid::from("u1"), PodUid::from("u2")]);
}

#[tokio::test(start_paused = true)]
async fn kills_pass_while_the_gate_is_full() {
    let mut node = Node::with(1, |context| std::sync::Arc::new(context));
    let old = pod("old", "u1", &["c"]);
    node.want([old.clone()]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Hang).times(1));
    let (blocked, next) = (pod("blocked", "u2", &["c"]), pod("next", "u3", &["c"]));
    node.want([old, blocked.clone()]);
    node.until("the gate is full", SECOND, |n| n.calls_of("u2", Operation::RunSandbox).len() == 1).await;
    node.want([blocked, next]);
    node.until("the old one is gone", LOOKS, |n| !n.has("u1")).await;
    assert!(node.calls_of("u3", Operation::RunSandbox).is_empty(), "the gate was not full");
    node.runtime.faults().release();
    node.until("the others run", MINUTE, |n| n.running("u2").len() + n.running("u3").len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_makes_no_running_container_old() {
    let mut node = Node::new();
    node.runtime.script("c", Script::runs([Run::Exits { after: SECOND, code: 1 }, Run::Forever]));
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    node.set_clock(-24 * 3600);
    node.until("it was restarted", 2 * MINUTE, |n| n.running("u1") == [("c".to_owned(), 1)]).await;
    sleep(5 * MINUTE).await;
    assert_eq!(node.running("u1"), [("c".to_owned(), 1)], "{}", node.picture());
    assert_eq!(starts(&node, "u1"), 2);
}
