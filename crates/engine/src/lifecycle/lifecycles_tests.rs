//! One test per rule of a pod's lifecycle: which work follows which update.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodRef, PodUid};
use hostlet_pod::testing;
use hostlet_pod::{AdmittedPod, PodPhase, Rejection, StatusOverride};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::{Effect, LifecycleView, PodLifecycles};
use crate::lifecycle::state::{KillRequest, PodUpdate, UpdateKind, UpdateSubject};
use crate::worker::{Content, Outcome, Retry, Work};

const RESYNC: Duration = Duration::from_secs(60);
const DONE: Outcome = Outcome::Done { due: None };

/// A static pod; `mark` distinguishes its specs.
fn spec(name: &str, uid: &str, mark: &str) -> Arc<AdmittedPod> {
    AdmittedPod::new(testing::pod(name, uid, "Always", &[mark]))
}

fn update(kind: UpdateKind, pod: &Arc<AdmittedPod>) -> PodUpdate {
    PodUpdate { kind, subject: UpdateSubject::Spec(pod.clone()), kill: None }
}

fn kill(pod: &Arc<AdmittedPod>, kill: KillRequest) -> PodUpdate {
    PodUpdate { kill: Some(kill), ..update(UpdateKind::Kill, pod) }
}

fn runtime(kind: UpdateKind, uid: &str, grace_seconds: Option<i64>) -> PodUpdate {
    let subject = UpdateSubject::Runtime { pod: PodRef::new("default", "left", uid), grace_seconds };
    PodUpdate { kind, subject, kill: None }
}

fn uid(text: &str) -> PodUid {
    text.into()
}

fn wanted(uids: &[&str]) -> HashSet<PodUid> {
    uids.iter().map(|text| uid(text)).collect()
}

/// The effects in short: `run u1 sync v1`, `cancel u1`, `stop u1`.
fn short(effects: &[Effect]) -> Vec<String> {
    let mark = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].name.clone();
    let what = |work: &Work| match work {
        Work::Sync(pod) => format!("sync {}", mark(pod)),
        Work::Terminate { grace_seconds, .. } => format!("terminate {grace_seconds}"),
        Work::Finish { content: Content::Keep, .. } => "finish keep".to_owned(),
        Work::Finish { content: Content::Remove, .. } => "finish remove".to_owned(),
        Work::Reap { grace_seconds, .. } => format!("reap {grace_seconds}"),
    };
    let one = |effect: &Effect| match effect {
        Effect::Run(uid, work) => format!("run {uid} {}", what(work)),
        Effect::Cancel(uid) => format!("cancel {uid}"),
        Effect::Stop(uid) => format!("stop {uid}"),
    };
    effects.iter().map(one).collect()
}

/// Lifecycles with a manual clock.
struct Table {
    lifecycles: PodLifecycles,
    now: Instant,
}

impl Table {
    fn new() -> Self {
        let mut lifecycles = PodLifecycles::new(RESYNC);
        assert!(lifecycles.runtime_is_known().is_empty());
        Self { lifecycles, now: Instant::now() }
    }

    /// Lifecycles in which `pod` is syncing.
    fn with_syncing(pod: &Arc<AdmittedPod>) -> Self {
        let mut table = Self::new();
        assert_eq!(table.update(update(UpdateKind::Create, pod)).len(), 1);
        table
    }

    fn update(&mut self, update: PodUpdate) -> Vec<String> {
        short(&self.lifecycles.update(update))
    }

    fn end(&mut self, pod: &str, outcome: Outcome) -> Vec<String> {
        short(&self.lifecycles.completed(&uid(pod), outcome, self.now, 0.0))
    }

    fn sync_known(&mut self, uids: &[&str]) -> Vec<String> {
        self.lifecycles.forget_recreated();
        short(&self.lifecycles.sync_known(&wanted(uids)))
    }

    fn phase(&self, pod: &str) -> Option<LifecycleView> {
        self.lifecycles.phase(&uid(pod))
    }
}

#[test]
fn the_latest_of_several_updates_wins() {
    let mut table = Table::new();
    assert_eq!(table.update(update(UpdateKind::Create, &spec("a", "u1", "v1"))), ["run u1 sync v1"]);
    assert!(table.update(update(UpdateKind::Update, &spec("a", "u1", "v2"))).is_empty());
    assert!(table.update(update(UpdateKind::Update, &spec("a", "u1", "v3"))).is_empty());
    assert_eq!(table.end("u1", DONE), ["run u1 sync v3"]);
    assert!(table.end("u1", DONE).is_empty(), "nothing new, nothing to do");
}

#[test]
fn an_update_never_overtakes_a_termination() {
    let pod = spec("a", "u1", "v1");
    for ended in [Outcome::Cancelled, DONE, Outcome::PodEnded, Outcome::Failed(Retry::Soon)] {
        let mut table = Table::with_syncing(&pod);
        assert_eq!(table.update(update(UpdateKind::Kill, &pod)), ["cancel u1"]);
        assert!(table.update(update(UpdateKind::Update, &spec("a", "u1", "v2"))).is_empty());
        assert_eq!(table.phase("u1"), Some(LifecycleView::Terminating));
        // Whatever the result of the sync, termination follows and is not complete.
        assert_eq!(table.end("u1", ended), ["run u1 terminate 30"]);
    }
}

#[test]
fn a_lifecycle_passes_all_stages() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    assert!(table.end("u1", DONE).is_empty());
    assert_eq!(table.update(update(UpdateKind::Kill, &pod)), ["run u1 terminate 30"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish keep"]);
    assert_eq!(table.phase("u1"), Some(LifecycleView::Terminated));
    assert_eq!(table.end("u1", DONE), ["stop u1"]);
    assert_eq!(table.phase("u1"), Some(LifecycleView::Finished));
}

#[test]
fn a_pod_that_turns_out_not_to_fit_fails() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    let rejected = Outcome::Rejected(Rejection::new("VolumeAttachmentLimitExceeded", "no room"));
    let effects = table.lifecycles.completed(&uid("u1"), rejected, table.now, 0.0);
    let [Effect::Run(_, Work::Terminate { status: Some(status), .. })] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!((status.phase, status.reason.as_str()), (PodPhase::Failed, "VolumeAttachmentLimitExceeded"));
    assert_eq!(status.message, "Pod was rejected: no room");
}

#[test]
fn nothing_of_a_removed_pod_is_kept() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    assert!(table.end("u1", DONE).is_empty());
    assert_eq!(table.update(update(UpdateKind::Remove, &pod)), ["run u1 terminate 30"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish remove"]);

    let ended = spec("b", "u2", "v1");
    let mut table = Table::with_syncing(&ended);
    assert_eq!(table.end("u2", Outcome::PodEnded), ["run u2 terminate 30"]);
    assert_eq!(table.end("u2", DONE), ["run u2 finish keep"]);
    table.update(update(UpdateKind::Remove, &ended));
    assert_eq!(table.end("u2", DONE), ["run u2 finish remove"], "removed while its content was being kept");
}

#[test]
fn deletion_completion_and_a_terminal_phase_terminate() {
    let pod = spec("a", "u1", "v1");
    let deleted = {
        let mut pod = Pod::clone(&pod);
        pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        pod.metadata.deletion_grace_period_seconds = Some(7);
        AdmittedPod::new(pod)
    };
    let mut table = Table::with_syncing(&pod);
    assert_eq!(table.update(update(UpdateKind::Update, &deleted)), ["cancel u1"]);
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 7"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish remove"]);

    let mut table = Table::with_syncing(&pod);
    assert_eq!(table.end("u1", Outcome::PodEnded), ["run u1 terminate 30"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish keep"]);

    for phase in ["Succeeded", "Failed"] {
        let mut ended = Pod::clone(&pod);
        ended.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        let mut table = Table::with_syncing(&pod);
        assert_eq!(table.update(update(UpdateKind::Update, &AdmittedPod::new(ended))), ["cancel u1"]);
    }
}

#[test]
fn the_grace_period_only_shrinks_and_never_below_one_second() {
    let pod = spec("a", "u1", "v1");
    let within = |seconds| KillRequest { grace_seconds: Some(seconds), ..KillRequest::default() };
    let mut table = Table::with_syncing(&pod);
    table.update(kill(&pod, within(20)));
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 20"]);
    assert!(table.update(kill(&pod, within(25))).is_empty(), "a longer one changes nothing");
    assert_eq!(table.update(kill(&pod, within(5))), ["cancel u1"]);
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 5"]);
    assert!(table.update(update(UpdateKind::Kill, &pod)).is_empty(), "nor does one without a wish");
    assert_eq!(table.update(kill(&pod, within(0))), ["cancel u1"]);
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 1"]);

    let mut table = Table::with_syncing(&pod);
    table.update(kill(&pod, within(-3)));
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 1"]);
}

#[test]
fn completion_is_signalled_when_no_container_runs() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    let ask = |table: &mut Table| {
        let (done, reported) = oneshot::channel();
        table.update(kill(&pod, KillRequest { done: Some(done), ..KillRequest::default() }));
        reported
    };
    let (mut first, mut second) = (ask(&mut table), ask(&mut table));
    table.end("u1", Outcome::Cancelled);
    table.end("u1", Outcome::Failed(Retry::BackOff));
    for reported in [&mut first, &mut second] {
        assert_eq!(reported.try_recv(), Err(TryRecvError::Empty), "its containers may still run");
    }
    table.update(update(UpdateKind::Update, &pod));
    assert_eq!(table.end("u1", DONE), ["run u1 finish keep"]);
    for reported in [&mut first, &mut second, &mut ask(&mut table)] {
        assert_eq!(reported.try_recv(), Err(TryRecvError::Closed));
    }
    table.end("u1", DONE);
    assert_eq!(ask(&mut table).try_recv(), Err(TryRecvError::Closed), "finished");
}

#[test]
fn the_content_of_an_evicted_pod_is_removed() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    table.update(update(UpdateKind::Kill, &pod));
    table.end("u1", Outcome::Cancelled);
    // A preemption may turn into an eviction while the pod is being stopped.
    table.update(kill(&pod, KillRequest { evict: true, ..KillRequest::default() }));
    assert_eq!(table.end("u1", DONE), ["run u1 finish remove"]);
}

#[test]
fn the_last_of_several_final_statuses_wins() {
    let pod = spec("a", "u1", "v1");
    let kill_with = |reason: &str| {
        let status = StatusOverride {
            phase: PodPhase::Failed,
            reason: reason.to_owned(),
            message: String::new(),
            disruption: None,
        };
        kill(&pod, KillRequest { status: Some(status), ..KillRequest::default() })
    };
    let mut table = Table::with_syncing(&pod);
    table.update(kill_with("Preempting"));
    table.update(kill_with("Evicted"));
    table.update(update(UpdateKind::Kill, &pod));
    let mut reported = Vec::new();
    for outcome in [Outcome::Cancelled, DONE] {
        for effect in table.lifecycles.completed(&uid("u1"), outcome, table.now, 0.0) {
            let Effect::Run(_, Work::Terminate { status, .. } | Work::Finish { status, .. }) = effect else {
                panic!("{effect:?}");
            };
            reported.push(status.unwrap().reason);
        }
    }
    assert_eq!(reported, ["Evicted", "Evicted"]);
}

#[test]
fn a_pod_without_a_source_is_terminated_and_forgotten() {
    let mut table = Table::with_syncing(&spec("a", "u1", "v1"));
    assert_eq!(table.sync_known(&[]), ["cancel u1"]);
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 30"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish remove"]);
    assert_eq!(table.end("u1", DONE), ["stop u1"]);
    assert!(table.sync_known(&[]).is_empty());
    assert_eq!(table.phase("u1"), None);
}

#[test]
fn content_is_also_removed_for_a_pod_deleted_after_completion() {
    let mut table = Table::with_syncing(&spec("a", "u1", "v1"));
    table.end("u1", Outcome::PodEnded);
    assert_eq!(table.end("u1", DONE), ["run u1 finish keep"]);
    assert!(table.sync_known(&[]).is_empty());
    assert_eq!(table.end("u1", DONE), ["run u1 finish remove"]);
}

#[test]
fn a_finished_pod_stays_finished_while_desired() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    for outcome in [Outcome::PodEnded, DONE, DONE] {
        table.end("u1", outcome);
    }
    assert!(table.sync_known(&["u1"]).is_empty());
    assert!(table.update(update(UpdateKind::Update, &pod)).is_empty());
    assert!(short(&table.lifecycles.wake(&uid("u1"))).is_empty());
    assert!(table.lifecycles.due(table.now + Duration::from_secs(1_000_000)).is_empty());
    assert_eq!(table.phase("u1"), Some(LifecycleView::Finished));
}

#[test]
fn a_uid_added_again_starts_a_new_lifecycle_after_the_old_one() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    table.update(update(UpdateKind::Kill, &pod));
    assert!(table.update(update(UpdateKind::Create, &spec("a", "u1", "v2"))).is_empty());
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 30"]);
    assert!(table.sync_known(&["u1"]).is_empty(), "not while it ends");
    table.update(update(UpdateKind::Update, &spec("a", "u1", "v3")));
    let ending = table.lifecycles.spec(&uid("u1")).map(|spec| spec.spec().containers[0].name.clone());
    assert_eq!(ending.as_deref(), Some("v1"), "what changes the new pod does not change the one that ends");
    table.end("u1", DONE);
    assert_eq!(table.end("u1", DONE), ["stop u1"]);
    table.sync_known(&["u1"]);
    assert_eq!(table.phase("u1"), None, "its history is dropped");
    assert_eq!(table.update(update(UpdateKind::Create, &spec("a", "u1", "v2"))), ["run u1 sync v2"]);
}

#[test]
fn a_deadline_shortens_a_back_off() {
    let pod = spec("a", "u1", "v1");
    for (deadline, pause) in [(3, 3), (20, 10)] {
        let mut table = Table::with_syncing(&pod);
        let outcome = Outcome::Failed(Retry::By(table.now + Duration::from_secs(deadline)));
        table.lifecycles.completed(&uid("u1"), outcome, table.now, 0.0);
        assert_eq!(table.lifecycles.next_due(), Some(table.now + Duration::from_secs(pause)));
    }
}

#[test]
fn failed_work_is_retried_after_its_back_off_with_jitter() {
    let pod = spec("a", "u1", "v1");
    let seconds = Duration::from_secs_f64;
    let pauses = [
        (Outcome::Failed(Retry::Soon), 1.0, 1.5),
        (Outcome::Failed(Retry::BackOff), 10.0, 15.0),
        (DONE, 60.0, 90.0),
    ];
    for (outcome, shortest, longest) in pauses {
        for (chance, pause) in [(0.0, shortest), (1.0, longest)] {
            let mut table = Table::with_syncing(&pod);
            assert!(table.lifecycles.completed(&uid("u1"), outcome.clone(), table.now, chance).is_empty());
            let due = table.now + seconds(pause);
            assert_eq!(table.lifecycles.next_due(), Some(due), "{outcome:?}");
            assert!(table.lifecycles.due(due - seconds(0.001)).is_empty());
            assert_eq!(short(&table.lifecycles.due(due)), ["run u1 sync v1"]);
            assert_eq!(table.lifecycles.next_due(), None, "not twice");
        }
    }
}

#[test]
fn a_sync_due_before_the_resync_happens_then() {
    let mut table = Table::with_syncing(&spec("a", "u1", "v1"));
    let due = table.now + Duration::from_secs(20);
    table.end("u1", Outcome::Done { due: Some(due) });
    assert_eq!(table.lifecycles.next_due(), Some(due));
    table.lifecycles.due(due);
    table.end("u1", Outcome::Done { due: Some(due + Duration::from_secs(100)) });
    assert_eq!(table.lifecycles.next_due(), Some(table.now + RESYNC));
}

#[test]
fn a_failed_stop_is_retried_after_the_back_off() {
    let pod = spec("a", "u1", "v1");
    let mut table = Table::with_syncing(&pod);
    table.update(update(UpdateKind::Kill, &pod));
    table.end("u1", Outcome::Cancelled);
    assert!(table.end("u1", Outcome::Failed(Retry::BackOff)).is_empty());
    assert_eq!(short(&table.lifecycles.due(table.now + Duration::from_secs(10))), ["run u1 terminate 30"]);
}

#[test]
fn static_pods_of_one_name_run_one_after_the_other_in_order_of_arrival() {
    let pods = ["u1", "u2", "u3"].map(|uid| spec("a", uid, uid));
    let mut table = Table::with_syncing(&pods[0]);
    for later in &pods[1..] {
        assert!(table.update(update(UpdateKind::Create, later)).is_empty());
        assert!(table.update(update(UpdateKind::Update, later)).is_empty(), "asking again is no short cut");
    }
    assert_eq!(table.update(update(UpdateKind::Create, &spec("b", "u9", "v"))), ["run u9 sync v"]);
    table.update(update(UpdateKind::Kill, &pods[0]));
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 30"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish keep"]);
    assert_eq!(table.end("u1", DONE), ["stop u1", "run u2 sync u2"]);
    assert_eq!(table.phase("u3"), Some(LifecycleView::Waiting));
}

#[test]
fn a_pod_removed_while_waiting_never_runs_and_blocks_no_other() {
    let pods = ["u1", "u2", "u3"].map(|uid| spec("a", uid, uid));
    for by_source in [true, false] {
        let mut table = Table::with_syncing(&pods[0]);
        table.update(update(UpdateKind::Create, &pods[1]));
        table.update(update(UpdateKind::Create, &pods[2]));
        let (done, mut reported) = oneshot::channel();
        let effects = if by_source {
            table.update(kill(&pods[1], KillRequest { done: Some(done), ..KillRequest::default() }))
        } else {
            drop(done);
            table.sync_known(&["u1", "u3"])
        };
        assert_eq!(effects, ["stop u2"]);
        assert_eq!(reported.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(table.end("u1", Outcome::PodEnded), ["run u1 terminate 30"]);
        table.end("u1", DONE);
        assert_eq!(table.end("u1", DONE), ["stop u1", "run u3 sync u3"]);
    }
}

#[test]
fn pods_of_the_api_do_not_wait_for_each_other() {
    let of_api = |uid: &str| {
        let mut pod = testing::pod("a", uid, "Always", &[uid]);
        pod.metadata.annotations = None;
        AdmittedPod::new(pod)
    };
    let mut table = Table::with_syncing(&of_api("u1"));
    assert_eq!(table.update(update(UpdateKind::Create, &of_api("u2"))), ["run u2 sync u2"]);
}

#[test]
fn orphans_in_the_runtime_are_stopped_removed_and_forgotten() {
    let mut table = Table::new();
    for kind in [UpdateKind::Create, UpdateKind::Update] {
        assert!(table.update(runtime(kind, "u1", Some(9))).is_empty());
        assert_eq!(table.phase("u1"), None);
    }
    assert_eq!(table.update(runtime(UpdateKind::Kill, "u1", Some(9))), ["run u1 reap 9"]);
    assert!(table.sync_known(&[]).is_empty(), "it is on its way out already");
    table.end("u1", Outcome::Failed(Retry::BackOff));
    assert_eq!(short(&table.lifecycles.due(table.now + Duration::from_secs(10))), ["run u1 reap 9"]);
    assert_eq!(table.end("u1", DONE), ["stop u1"]);
    assert_eq!(table.phase("u1"), None);

    assert_eq!(table.update(runtime(UpdateKind::Kill, "u2", None)), ["run u2 reap 1"]);
}

#[test]
fn a_known_pod_terminates_with_its_own_spec_on_an_update_by_uid() {
    let mut table = Table::with_syncing(&spec("a", "u1", "v1"));
    assert_eq!(table.update(runtime(UpdateKind::Kill, "u1", Some(9))), ["cancel u1"]);
    assert_eq!(table.end("u1", Outcome::Cancelled), ["run u1 terminate 30"]);
    assert_eq!(table.end("u1", DONE), ["run u1 finish remove"]);
}

#[test]
fn a_pod_desired_while_its_leftovers_are_removed_starts_afterwards() {
    let mut table = Table::new();
    table.update(runtime(UpdateKind::Kill, "u1", Some(9)));
    let pod = spec("left", "u1", "v1");
    assert!(table.update(update(UpdateKind::Create, &pod)).is_empty());
    assert_eq!(table.end("u1", DONE), ["stop u1"]);
    assert_eq!(table.update(update(UpdateKind::Create, &pod)), ["run u1 sync v1"]);
}

#[test]
fn a_static_pod_waits_until_the_runtime_was_listed_and_for_what_it_has_of_its_name() {
    // The record of the first one was lost with the disk.
    let pod = spec("left", "u2", "v2");
    let mut table = Table { lifecycles: PodLifecycles::new(RESYNC), now: Instant::now() };
    assert!(table.update(update(UpdateKind::Create, &pod)).is_empty());
    assert_eq!(short(&table.lifecycles.runtime_is_known()), ["run u2 sync v2"]);

    let mut table = Table::new();
    for orphan in ["u0", "u1"] {
        table.update(runtime(UpdateKind::Kill, orphan, Some(9)));
    }
    assert!(table.update(update(UpdateKind::Create, &pod)).is_empty());
    assert_eq!(table.end("u1", DONE), ["stop u1"]);
    assert!(table.sync_known(&["u2"]).is_empty());
    assert_eq!(table.end("u0", DONE), ["stop u0", "run u2 sync v2"]);
    assert!(table.lifecycles.static_waiting.is_empty());
}

#[test]
fn an_adopted_pod_waits_for_its_source() {
    let old = spec("web", "old", "v1");
    let mut table = Table::new();
    table.lifecycles.adopt(old.clone());
    assert!(short(&table.lifecycles.wake(&uid("old"))).is_empty(), "no source has named it yet");
    assert!(table.lifecycles.due(table.now + RESYNC).is_empty());
    assert_eq!(table.phase("old"), Some(LifecycleView::Waiting));
    assert_eq!(table.update(update(UpdateKind::Create, &old)), ["run old sync v1"]);
}

#[test]
fn a_successor_waits_for_an_adopted_pod_to_terminate() {
    let (old, new) = (spec("web", "old", "v1"), spec("web", "new", "v2"));
    let mut table = Table::new();
    table.lifecycles.adopt(old.clone());
    assert_eq!(table.update(update(UpdateKind::Kill, &old)), ["run old terminate 30"]);
    assert!(table.update(update(UpdateKind::Create, &new)).is_empty());
    assert!(table.sync_known(&["new"]).is_empty());
    assert_eq!(table.end("old", DONE), ["run old finish remove"]);
    assert_eq!(table.end("old", DONE), ["stop old", "run new sync v2"]);
}

#[test]
fn a_successor_waits_for_every_adopted_pod_of_its_name() {
    // A daemon was killed while the second waited for the first to terminate; then the manifest was edited again.
    let pods = ["v1", "v2", "v3"].map(|version| spec("web", version, version));
    let [first, second, third] = &pods;
    for ends_last in ["v1", "v2"] {
        let mut table = Table::new();
        table.lifecycles.adopt(first.clone());
        table.lifecycles.adopt(second.clone());
        table.update(update(UpdateKind::Kill, first));
        table.update(update(UpdateKind::Kill, second));
        assert!(table.update(update(UpdateKind::Create, third)).is_empty());
        let ends_first = if ends_last == "v1" { "v2" } else { "v1" };
        table.end(ends_first, DONE);
        assert_eq!(table.end(ends_first, DONE), [format!("stop {ends_first}")]);
        table.end(ends_last, DONE);
        assert_eq!(table.end(ends_last, DONE), [format!("stop {ends_last}"), "run v3 sync v3".to_owned()]);
    }
}

#[test]
fn a_waiting_pod_that_actually_runs_is_stopped_before_its_successor_starts() {
    // A daemon was killed after starting the second one and before storing it.
    let pods = ["v1", "v2", "v3"].map(|version| spec("web", version, version));
    let [first, second, third] = &pods;
    let mut table = Table::new();
    table.lifecycles.adopt(first.clone());
    table.update(update(UpdateKind::Remove, first));
    assert!(table.update(update(UpdateKind::Create, second)).is_empty());
    table.lifecycles.seen_in_runtime(&uid("v2"));
    assert_eq!(table.update(update(UpdateKind::Remove, second)), ["run v2 terminate 30"]);
    assert!(table.update(update(UpdateKind::Create, third)).is_empty());
    table.end("v1", DONE);
    assert_eq!(table.end("v1", DONE), ["stop v1"]);
    table.end("v2", DONE);
    assert_eq!(table.end("v2", DONE), ["stop v2", "run v3 sync v3"]);
}

#[test]
fn the_second_adopted_pod_of_a_name_runs_once_the_first_has_terminated() {
    let (first, second) = (spec("web", "v1", "v1"), spec("web", "v2", "v2"));
    let mut table = Table::new();
    table.lifecycles.adopt(first.clone());
    table.lifecycles.adopt(second.clone());
    table.update(update(UpdateKind::Kill, &first));
    assert!(table.update(update(UpdateKind::Create, &second)).is_empty());
    table.end("v1", DONE);
    assert_eq!(table.end("v1", DONE), ["stop v1", "run v2 sync v2"]);
}
