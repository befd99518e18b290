//! Random histories of many pods, checked against a model of the guarantees: which work must never be started, and the final state
//! once nothing fails anymore.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{CONFIG_SOURCE_ANNOTATION, PodUid};
use hostlet_pod::{AdmittedPod, PodPhase, Rejection, StatusOverride};
use hostlet_pod::{is_static, pod_ref, testing};
use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::{Effect, LifecycleView, PodLifecycles};
use crate::lifecycle::state::{KillRequest, PodUpdate, UpdateKind, UpdateSubject};
use crate::worker::{Outcome, Retry, Work};

/// Pods 0 to 2 are static pods with one full name, 3 has another one, 4 is an API pod.
const PODS: usize = 5;

fn uid(pod: usize) -> PodUid {
    format!("u{pod}").into()
}

/// A pod's state in an update.
#[derive(Clone, Copy, Debug)]
enum Look {
    Plain,
    Deleted,
    Ended,
}

fn object(pod: usize, look: Look) -> Arc<AdmittedPod> {
    let name = if pod < 3 { "a".to_owned() } else { format!("p{pod}") };
    let mut object = testing::pod(&name, uid(pod).as_str(), "Always", &["c"]);
    if pod == 4 {
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
    }
    match look {
        Look::Plain => {}
        Look::Deleted => object.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH)),
        Look::Ended => {
            object.status = Some(PodStatus { phase: Some("Failed".to_owned()), ..PodStatus::default() });
        }
    }
    AdmittedPod::new(object)
}

#[derive(Clone, Debug)]
enum Op {
    /// An update from a source or the node.
    Update(usize, UpdateKind, Look),
    /// A kill with a completion signal.
    Kill { pod: usize, grace: Option<i64>, evict: bool, status: bool },
    /// An orphan in the runtime.
    RuntimeKill(usize),
    /// The work of a pod, if any, finishes.
    Complete(usize, Outcome),
    /// A change in the runtime.
    Wake(usize),
    /// Housekeeping with the desired pods.
    SyncKnown([bool; PODS]),
    /// Time passes.
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        3 => Just(UpdateKind::Create), 3 => Just(UpdateKind::Update), 2 => Just(UpdateKind::Kill),
        2 => Just(UpdateKind::Remove)
    ];
    let look = prop_oneof![8 => Just(Look::Plain), 1 => Just(Look::Deleted), 1 => Just(Look::Ended)];
    let outcome = prop_oneof![
        6 => Just(Outcome::Done { due: None }),
        1 => Just(Outcome::PodEnded),
        1 => Just(Outcome::Rejected(Rejection::new("NoRoom", "no room"))),
        1 => Just(Outcome::Failed(Retry::Soon)),
        1 => Just(Outcome::Failed(Retry::BackOff)),
        2 => Just(Outcome::Cancelled),
    ];
    let grace = proptest::option::of(-1i64..40);
    prop_oneof![
        6 => (0..PODS, kind, look).prop_map(|(pod, kind, look)| Op::Update(pod, kind, look)),
        2 => (0..PODS, grace, any::<bool>(), any::<bool>())
            .prop_map(|(pod, grace, evict, status)| Op::Kill { pod, grace, evict, status }),
        1 => (0..PODS).prop_map(Op::RuntimeKill),
        8 => (0..PODS, outcome).prop_map(|(pod, outcome)| Op::Complete(pod, outcome)),
        1 => (0..PODS).prop_map(Op::Wake),
        2 => any::<[bool; PODS]>().prop_map(Op::SyncKnown),
        2 => (0u64..70).prop_map(Op::Pass),
    ]
}

/// The observable state of one lifecycle.
#[derive(Default)]
struct Seen {
    phase: Option<LifecycleView>,
    work: Option<Work>,
    end_requested: bool,
    has_synced: bool,
    stopped: bool,
    grace: Option<i64>,
    /// Pending completion signals.
    waiting: Vec<oneshot::Receiver<()>>,
}

struct Model {
    lifecycles: PodLifecycles,
    now: Instant,
    seen: BTreeMap<usize, Seen>,
    /// Static pods of each full name that have not synced yet, and orphans that have not been removed, in order of arrival.
    line: BTreeMap<String, Vec<usize>>,
    /// The static pod of each full name that has synced and has not finished.
    running: BTreeMap<String, usize>,
    /// All completion signals so far.
    reported: Vec<oneshot::Receiver<()>>,
}

fn rank(phase: LifecycleView) -> u8 {
    match phase {
        LifecycleView::Waiting => 0,
        LifecycleView::Syncing => 1,
        LifecycleView::Terminating => 2,
        LifecycleView::Terminated => 3,
        LifecycleView::Finished => 4,
    }
}

impl Model {
    fn new() -> Self {
        let mut lifecycles = PodLifecycles::new(Duration::from_secs(60));
        assert!(lifecycles.runtime_is_known().is_empty());
        Self {
            lifecycles,
            now: Instant::now(),
            seen: BTreeMap::new(),
            line: BTreeMap::new(),
            running: BTreeMap::new(),
            reported: Vec::new(),
        }
    }

    fn name(pod: usize) -> String {
        pod_ref(&object(pod, Look::Plain)).full_name()
    }

    fn apply(&mut self, op: &Op) {
        let effects = match op {
            Op::Update(pod, kind, look) => self.update(*pod, *kind, *look, None),
            Op::Kill { pod, grace, evict, status } => {
                let (done, reported) = oneshot::channel();
                let status = status.then(|| StatusOverride {
                    phase: PodPhase::Failed,
                    reason: "Evicted".to_owned(),
                    message: String::new(),
                    disruption: None,
                });
                let request = KillRequest { done: Some(done), evict: *evict, status, grace_seconds: *grace };
                let effects = self.update(*pod, UpdateKind::Kill, Look::Plain, Some(request));
                if self.lifecycles.phase(&uid(*pod)) == Some(LifecycleView::Terminating) {
                    self.seen.entry(*pod).or_default().waiting.push(reported);
                } else {
                    self.reported.push(reported);
                }
                effects
            }
            Op::RuntimeKill(pod) => {
                let subject = UpdateSubject::Runtime {
                    pod: pod_ref(&object(*pod, Look::Plain)),
                    grace_seconds: Some(5),
                };
                if self.lifecycles.phase(&uid(*pod)).is_none() {
                    self.line.entry(Self::name(*pod)).or_default().push(*pod);
                }
                self.seen.entry(*pod).or_default().end_requested = true;
                self.lifecycles.update(PodUpdate { kind: UpdateKind::Kill, subject, kill: None })
            }
            Op::Complete(pod, outcome) => self.complete(*pod, outcome.clone()),
            Op::Wake(pod) => self.lifecycles.wake(&uid(*pod)),
            Op::SyncKnown(wanted) => {
                for (pod, seen) in &mut self.seen {
                    seen.end_requested |= !wanted[*pod];
                }
                let wanted = (0..PODS).filter(|pod| wanted[*pod]).map(uid).collect();
                self.lifecycles.forget_recreated();
                self.lifecycles.sync_known(&wanted)
            }
            Op::Pass(seconds) => {
                self.now += Duration::from_secs(*seconds);
                self.lifecycles.due(self.now)
            }
        };
        self.check(effects);
    }

    fn update(&mut self, pod: usize, kind: UpdateKind, look: Look, kill: Option<KillRequest>) -> Vec<Effect> {
        let ends = match (kind, look) {
            (UpdateKind::Kill | UpdateKind::Remove, _) | (_, Look::Deleted | Look::Ended) => true,
            (UpdateKind::Create | UpdateKind::Update, Look::Plain) => false,
        };
        let object = object(pod, look);
        if self.lifecycles.phase(&uid(pod)).is_none() {
            self.seen.insert(pod, Seen::default());
            if is_static(&object) {
                self.line.entry(Self::name(pod)).or_default().push(pod);
            }
        }
        self.seen.entry(pod).or_default().end_requested |= ends;
        self.lifecycles.update(PodUpdate { kind, subject: UpdateSubject::Spec(object), kill })
    }

    fn complete(&mut self, pod: usize, outcome: Outcome) -> Vec<Effect> {
        let seen = self.seen.entry(pod).or_default();
        let outcome = match (&seen.work.take(), outcome) {
            (None, outcome) => return self.lifecycles.completed(&uid(pod), outcome, self.now, 0.5),
            (Some(Work::Sync(_)), outcome) => outcome,
            // Only a sync can find that the pod has terminated.
            (
                Some(Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. }),
                Outcome::PodEnded | Outcome::Rejected(_),
            ) => Outcome::Done { due: None },
            (Some(Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. }), outcome) => outcome,
        };
        seen.end_requested |= matches!(outcome, Outcome::PodEnded | Outcome::Rejected(_));
        self.lifecycles.completed(&uid(pod), outcome, self.now, 0.5)
    }

    /// Checks effects and stages against the guarantees.
    fn check(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Run(uid, work) => self.check_run(&uid, work),
                Effect::Cancel(uid) => {
                    assert!(self.by_uid(&uid).1.work.is_some(), "{uid} is idle and was to be cancelled");
                }
                Effect::Stop(uid) => {
                    let (pod, seen) = self.by_uid(&uid);
                    assert!(seen.work.is_none(), "{uid} was stopped while at work");
                    assert!(!seen.stopped, "{uid} was stopped twice");
                    seen.stopped = true;
                    let name = Self::name(pod);
                    if self.running.get(&name) == Some(&pod) {
                        self.running.remove(&name);
                    }
                    self.line.entry(name).or_default().retain(|other| *other != pod);
                }
            }
        }
        for pod in 0..PODS {
            self.check_stage(pod);
        }
    }

    fn check_run(&mut self, uid: &PodUid, work: Work) {
        let (pod, seen) = self.by_uid(uid);
        assert!(seen.work.is_none(), "{uid} got work while at work");
        assert!(!seen.stopped, "{uid} got work after it finished");
        seen.work = Some(work.clone());
        match work {
            Work::Sync(object) => {
                assert!(!seen.end_requested, "{uid} was synced after its termination was requested");
                let is_first = !std::mem::replace(&mut seen.has_synced, true);
                if is_first && is_static(&object) {
                    let name = Self::name(pod);
                    assert_eq!(self.running.insert(name.clone(), pod), None, "two of one name run");
                    let line = self.line.entry(name).or_default();
                    assert_eq!(line.remove(0), pod, "not its turn");
                }
            }
            Work::Terminate { grace_seconds, .. } => {
                assert!(seen.end_requested, "{uid} was stopped without a request");
                assert!(grace_seconds >= 1);
                assert!(seen.grace.is_none_or(|before| grace_seconds <= before), "the grace of {uid} grew");
                seen.grace = Some(grace_seconds);
                // A static pod stopped while waiting leaves the queue.
                self.line.entry(Self::name(pod)).or_default().retain(|other| *other != pod);
            }
            Work::Finish { .. } | Work::Reap { .. } => {
                assert!(seen.end_requested, "{uid} was cleaned up without a request");
            }
        }
    }

    fn by_uid(&mut self, uid: &PodUid) -> (usize, &mut Seen) {
        let pod = (0..PODS).find(|pod| self::uid(*pod) == *uid).unwrap();
        (pod, self.seen.entry(pod).or_default())
    }

    fn check_stage(&mut self, pod: usize) {
        let phase = self.lifecycles.phase(&uid(pod));
        let Some(seen) = self.seen.get_mut(&pod) else { return assert_eq!(phase, None) };
        let before = std::mem::replace(&mut seen.phase, phase);
        match (before, phase) {
            (None, _) => {}
            (Some(before), Some(after)) => {
                assert!(rank(after) >= rank(before), "{pod} went back from {before:?} to {after:?}");
            }
            (Some(_), None) => {
                assert!(seen.stopped && seen.work.is_none(), "{pod} was forgotten before it finished");
            }
        }
        assert_eq!(phase == Some(LifecycleView::Finished), seen.stopped && phase.is_some());
        for reported in &mut seen.waiting {
            let expected = match phase {
                Some(LifecycleView::Terminating) => TryRecvError::Empty,
                Some(_) | None => TryRecvError::Closed,
            };
            assert_eq!(reported.try_recv(), Err(expected), "{pod} in {phase:?}");
        }
        if phase.is_none()
            && let Some(seen) = self.seen.remove(&pod)
        {
            self.reported.extend(seen.waiting);
        }
    }

    /// Lets all work succeed and runs housekeeping until nothing changes anymore.
    fn settle(&mut self, wanted: [bool; PODS]) {
        for _ in 0..10 {
            for _ in 0..4 {
                for pod in 0..PODS {
                    self.apply(&Op::Complete(pod, Outcome::Done { due: None }));
                }
            }
            self.apply(&Op::SyncKnown(wanted));
            let missing = (0..PODS).filter(|pod| wanted[*pod] && self.lifecycles.phase(&uid(*pod)).is_none());
            for pod in missing.collect::<Vec<_>>() {
                self.apply(&Op::Update(pod, UpdateKind::Create, Look::Plain));
            }
            self.apply(&Op::Pass(200));
        }
    }

    fn check_settled(&mut self, wanted: [bool; PODS]) {
        let mut syncing = HashSet::new();
        for pod in 0..PODS {
            if self.lifecycles.phase(&uid(pod)) == Some(LifecycleView::Syncing) {
                assert!(syncing.insert(Self::name(pod)), "two of one name run");
            }
        }
        for (pod, is_wanted) in wanted.into_iter().enumerate() {
            match self.lifecycles.phase(&uid(pod)) {
                None => assert!(!is_wanted, "{pod} is wanted and was forgotten"),
                Some(LifecycleView::Syncing | LifecycleView::Finished) => {
                    assert!(is_wanted, "{pod} was not forgotten")
                }
                Some(LifecycleView::Waiting) => {
                    assert!(is_wanted && syncing.contains(&Self::name(pod)), "{pod} waits for nobody");
                }
                Some(phase @ (LifecycleView::Terminating | LifecycleView::Terminated)) => {
                    panic!("{pod} is stuck in {phase:?}")
                }
            }
        }
        for reported in &mut self.reported {
            assert_eq!(reported.try_recv(), Err(TryRecvError::Closed), "a completion signal was never sent");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_guarantees_hold_in_every_history(
        ops in proptest::collection::vec(op(), 1..120),
        wanted in any::<[bool; PODS]>(),
    ) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
        }
        model.settle(wanted);
        model.check_settled(wanted);
    }
}
