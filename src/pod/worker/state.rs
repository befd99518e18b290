//! The life of one pod: `Waiting → Syncing → Terminating → Terminated → Finished`, never back. Pure: decides what work is
//! next, performs none.
//!
//! A life ends only by way of Terminating and Terminated, each left when its work succeeded. Once Terminating is
//! entered nothing of the pod is started again under this UID, until the table forgot it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::cri::CriError;
use crate::pod::Urgency;
use crate::types::PodRef;

/// Shortest grace period: a pod deleted with 0 must still be stopped (as upstream).
const MIN_GRACE_SECONDS: i64 = 1;

/// What a source, the runtime or the node wants of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// The pod was not wanted before.
    Create,
    /// Its spec changed.
    Update,
    /// Nothing changed; look again.
    Sync,
    /// Its containers must not run any more.
    Kill,
    /// The same, and nothing of it is kept: its source names it no more.
    Remove,
}

/// Which pod an update is about.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A pod with its spec.
    Spec(Arc<Pod>),
    /// A pod known from the runtime only, and the grace period its containers were made with, seconds.
    Runtime {
        /// The pod.
        pod: PodRef,
        /// Seconds from its containers' annotations.
        grace_seconds: Option<i64>,
    },
}

/// The status a killed pod ends with, e.g. `Failed`, `Evicted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusOverride {
    /// `status.phase`.
    pub phase: &'static str,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Message of the condition `DisruptionTarget`; none if the pod is not ended for the node's sake.
    pub disruption: Option<&'static str>,
}

/// How to kill.
#[derive(Debug, Default)]
pub struct KillRequest {
    /// Dropped once no container of the pod runs.
    pub done: Option<oneshot::Sender<()>>,
    /// The node needs the pod's resources back: its stopped containers are removed as well.
    pub evict: bool,
    /// Status the pod ends with; of several requests the last one's.
    pub status: Option<StatusOverride>,
    /// Grace period, seconds; only ever shortens an earlier one.
    pub grace_seconds: Option<i64>,
}

/// One update of a pod.
#[derive(Debug)]
pub struct PodUpdate {
    /// What is wanted.
    pub kind: UpdateKind,
    /// Of which pod.
    pub subject: Subject,
    /// How to kill, for [`UpdateKind::Kill`] and for pods that terminate already.
    pub kill: Option<KillRequest>,
}

/// What becomes of a pod's dead containers, logs and directories once it is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// They stay: the pod is still wanted, and its result is worth reading.
    Keep,
    /// They go: the pod was deleted, evicted, or nobody knows it.
    Remove,
}

/// Where a pod is in its life.
#[derive(Debug)]
pub enum Stage {
    /// Known, nothing done yet. A static pod waits here until its predecessor of the same full name has finished.
    Waiting,
    /// Its containers are made to match its spec.
    Syncing,
    /// Its containers are being stopped, within this grace period.
    Terminating {
        /// Seconds; only ever shrinks.
        grace_seconds: i64,
        /// Status to end with.
        status: Option<StatusOverride>,
        /// Raised once the node needs what the pod holds.
        urgency: Urgency,
        /// Dropped when the stage is left.
        waiting: Vec<oneshot::Sender<()>>,
    },
    /// No container runs; what must be given back before the pod is forgotten is being given back.
    Terminated {
        /// Status to end with.
        status: Option<StatusOverride>,
    },
    /// Nothing is left to do.
    Finished,
}

/// Work for the worker of a pod.
#[derive(Clone, Debug)]
pub enum Work {
    /// Make its containers match its spec.
    Sync(Arc<Pod>),
    /// Stop its containers.
    Terminate {
        /// The pod.
        pod: Arc<Pod>,
        /// Seconds they may take.
        grace_seconds: i64,
        /// Status to end with.
        status: Option<StatusOverride>,
        /// Whether it waits for the ends of other pods; may be raised while it does.
        urgency: Urgency,
    },
    /// Give back what it held.
    Finish {
        /// The pod.
        pod: Arc<Pod>,
        /// Status to end with.
        status: Option<StatusOverride>,
        /// What becomes of its dead containers, logs and directories.
        content: Content,
    },
    /// Stop and remove everything of a pod known from the runtime only.
    Reap {
        /// The pod.
        pod: PodRef,
        /// Seconds its containers may take.
        grace_seconds: i64,
    },
}

/// How work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded. For a sync: look again at this moment at the latest, if one is given.
    Done {
        /// When something is due, e.g. the end of a back-off.
        due: Option<Instant>,
    },
    /// A sync found that the pod has run to its end.
    PodEnded,
    /// It failed.
    Failed(Retry),
    /// It was cancelled: newer work waits.
    Cancelled,
}

/// When to try failed work again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// In a second: the cause tends to pass, e.g. the network is not ready yet.
    Soon,
    /// After the ordinary back-off.
    BackOff,
}

impl Retry {
    /// After a call that failed. A runtime that went away is back in a moment: what it was asked waits no longer.
    pub(super) fn after(error: &CriError) -> Self {
        match error {
            CriError::Unreachable { .. } => Self::Soon,
            CriError::TimedOut { .. }
            | CriError::NotFound { .. }
            | CriError::Unimplemented { .. }
            | CriError::Failed { .. }
            | CriError::TooLarge { .. }
            | CriError::Malformed { .. } => Self::BackOff,
        }
    }
}

/// What an update or the end of work leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Stay,
    /// The next work should start now.
    Advance,
    /// The next work should start now, and work under way must end early.
    Interrupt,
}

/// The life of one pod.
#[derive(Debug)]
pub struct Life {
    pod: PodRef,
    spec: Option<Arc<Pod>>,
    stage: Stage,
    content: Content,
    /// Something of it was seen in the runtime, or may be there, before it was started here.
    seen_running: bool,
    /// The UID was wanted anew while this life was ending.
    restart_requested: bool,
    /// Grace period its containers tell, for a pod without a spec.
    runtime_grace: Option<i64>,
}

impl Life {
    /// A pod heard of for the first time.
    pub fn new(subject: &Subject, pod: PodRef) -> Self {
        let (spec, runtime_grace) = match subject {
            Subject::Spec(spec) => (Some(spec.clone()), None),
            Subject::Runtime { grace_seconds, .. } => (None, *grace_seconds),
        };
        Self {
            pod,
            spec,
            stage: Stage::Waiting,
            content: Content::Keep,
            seen_running: runtime_grace.is_some(),
            restart_requested: false,
            runtime_grace,
        }
    }

    /// A daemon before this one may have started it: ending it means to stop it.
    pub fn may_run(&mut self) {
        self.seen_running = true;
    }

    /// The pod.
    pub fn pod(&self) -> &PodRef {
        &self.pod
    }

    /// Its newest spec; none for a pod known from the runtime only.
    pub fn spec(&self) -> Option<&Arc<Pod>> {
        self.spec.as_ref()
    }

    /// Where it is in its life.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Whether its UID was wanted anew while it was ending.
    pub fn restart_requested(&self) -> bool {
        self.restart_requested
    }

    /// Takes in an update. Whoever waits on a kill that is moot is answered by dropping its sender.
    pub fn update(&mut self, update: PodUpdate) -> Step {
        let PodUpdate { kind, subject, kill } = update;
        let is_orphan = match subject {
            Subject::Spec(spec) => {
                match self.stage {
                    // The life that ends, ends with the spec it had; the new one waits for the next life.
                    Stage::Terminating { .. } | Stage::Terminated { .. } | Stage::Finished
                        if kind == UpdateKind::Create =>
                    {
                        self.restart_requested = true;
                        return Step::Stay;
                    }
                    Stage::Waiting
                    | Stage::Syncing
                    | Stage::Terminating { .. }
                    | Stage::Terminated { .. }
                    | Stage::Finished => {}
                }
                self.spec = Some(spec);
                false
            }
            Subject::Runtime { grace_seconds, .. } => {
                if kind != UpdateKind::Kill {
                    // What only the runtime knows can only be stopped.
                    return Step::Stay;
                }
                self.seen_running = true;
                self.runtime_grace = self.runtime_grace.or(grace_seconds);
                true
            }
        };
        if kind == UpdateKind::Remove {
            self.content = Content::Remove;
        }
        match &self.stage {
            Stage::Waiting | Stage::Syncing => self.maybe_terminate(kind, is_orphan, kill),
            Stage::Terminating { .. } => self.kill_again(kill),
            // Nothing runs any more, so the kill is done; cleaning up does not change with it.
            Stage::Terminated { .. } => Step::Advance,
            Stage::Finished => Step::Stay,
        }
    }

    fn maybe_terminate(&mut self, kind: UpdateKind, is_orphan: bool, kill: Option<KillRequest>) -> Step {
        let metadata = self.spec.as_ref().map(|s| &s.metadata);
        let is_deleted = is_orphan || metadata.is_some_and(|m| m.deletion_timestamp.is_some());
        let phase = self.spec.as_ref().and_then(|s| s.status.as_ref()?.phase.as_deref());
        let has_ended = matches!(phase, Some("Succeeded" | "Failed"));
        if is_deleted {
            self.content = Content::Remove;
        }
        let is_asked = match kind {
            UpdateKind::Kill | UpdateKind::Remove => true,
            UpdateKind::Create | UpdateKind::Update | UpdateKind::Sync => false,
        };
        if !is_deleted && !has_ended && !is_asked {
            return Step::Advance;
        }
        self.terminate(kill.unwrap_or_default());
        Step::Interrupt
    }

    /// The pod is no longer wanted by any source.
    pub fn orphan(&mut self) -> Step {
        self.content = Content::Remove;
        match &self.stage {
            Stage::Waiting | Stage::Syncing => {
                self.terminate(KillRequest::default());
                Step::Interrupt
            }
            Stage::Terminating { .. } | Stage::Terminated { .. } => Step::Advance,
            Stage::Finished => Step::Stay,
        }
    }

    fn terminate(&mut self, kill: KillRequest) {
        if kill.evict {
            self.content = Content::Remove;
        }
        // A static pod that never started here and was never seen running has nothing to stop.
        if matches!(self.stage, Stage::Waiting) && self.is_static() && !self.seen_running {
            self.stage = Stage::Finished;
            return;
        }
        let urgency = Urgency::default();
        if kill.evict {
            urgency.raise();
        }
        self.stage = Stage::Terminating {
            grace_seconds: self.grace(None, kill.grace_seconds),
            status: kill.status,
            urgency,
            waiting: kill.done.into_iter().collect(),
        };
    }

    fn kill_again(&mut self, kill: Option<KillRequest>) -> Step {
        let kill = kill.unwrap_or_default();
        let Stage::Terminating { grace_seconds, .. } = &self.stage else { return Step::Stay };
        let old = *grace_seconds;
        let new = self.grace(Some(old), kill.grace_seconds);
        if kill.evict {
            self.content = Content::Remove;
        }
        let Stage::Terminating { grace_seconds, status, urgency, waiting } = &mut self.stage else {
            return Step::Stay;
        };
        if kill.evict {
            urgency.raise();
        }
        *grace_seconds = new;
        if kill.status.is_some() {
            *status = kill.status;
        }
        waiting.extend(kill.done);
        if new < old { Step::Interrupt } else { Step::Advance }
    }

    /// The grace period in force: the shortest of those asked for so far; the spec's own when nobody asked.
    fn grace(&self, current: Option<i64>, requested: Option<i64>) -> i64 {
        let deletion = self.spec.as_ref().and_then(|s| s.metadata.deletion_grace_period_seconds);
        let own = self.spec.as_ref().and_then(|s| s.spec.as_ref()?.termination_grace_period_seconds);
        [current, deletion, requested]
            .into_iter()
            .flatten()
            .min()
            .or(own)
            .or(self.runtime_grace)
            .unwrap_or(MIN_GRACE_SECONDS)
            .max(MIN_GRACE_SECONDS)
    }

    /// A pod whose start was allowed leaves Waiting.
    pub fn start(&mut self) {
        if matches!(self.stage, Stage::Waiting) {
            self.stage = Stage::Syncing;
        }
    }

    /// The work of the present stage; none while waiting and once finished.
    pub fn work(&self) -> Option<Work> {
        match (&self.stage, &self.spec) {
            (Stage::Waiting | Stage::Finished, _) | (Stage::Syncing, None) => None,
            (Stage::Syncing, Some(spec)) => Some(Work::Sync(spec.clone())),
            (Stage::Terminating { grace_seconds, status, urgency, .. }, Some(spec)) => {
                Some(Work::Terminate {
                    pod: spec.clone(),
                    grace_seconds: *grace_seconds,
                    status: status.clone(),
                    urgency: urgency.clone(),
                })
            }
            (Stage::Terminating { grace_seconds, .. }, None) => {
                Some(Work::Reap { pod: self.pod.clone(), grace_seconds: *grace_seconds })
            }
            (Stage::Terminated { .. }, None) => {
                Some(Work::Reap { pod: self.pod.clone(), grace_seconds: MIN_GRACE_SECONDS })
            }
            (Stage::Terminated { status }, Some(spec)) => {
                Some(Work::Finish { pod: spec.clone(), status: status.clone(), content: self.content })
            }
        }
    }

    /// Takes in that `work`, which this life gave out, succeeded (or that the pod has ended, for a sync).
    ///
    /// The work is passed because the stage may have moved on while it ran: a sync that ends after the pod was killed
    /// must not finish the kill.
    pub fn completed(&mut self, work: &Work, outcome: Outcome) -> Step {
        match (&mut self.stage, work, outcome) {
            (Stage::Syncing, Work::Sync(_), Outcome::PodEnded) => {
                self.terminate(KillRequest::default());
                Step::Advance
            }
            (Stage::Terminating { status, waiting, .. }, Work::Terminate { .. }, Outcome::Done { .. }) => {
                waiting.clear();
                let status = status.take();
                self.stage = Stage::Terminated { status };
                Step::Advance
            }
            (Stage::Terminating { .. }, Work::Reap { .. }, Outcome::Done { .. })
            | (Stage::Terminated { .. }, Work::Reap { .. }, Outcome::Done { .. }) => {
                self.stage = Stage::Finished;
                Step::Stay
            }
            (Stage::Terminated { .. }, Work::Finish { content, .. }, Outcome::Done { .. }) => {
                if *content != self.content {
                    // It was deleted while its content was being kept.
                    return Step::Advance;
                }
                self.stage = Stage::Finished;
                Step::Stay
            }
            (
                Stage::Waiting
                | Stage::Syncing
                | Stage::Terminating { .. }
                | Stage::Terminated { .. }
                | Stage::Finished,
                Work::Sync(_) | Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. },
                Outcome::Done { .. } | Outcome::PodEnded | Outcome::Failed(_) | Outcome::Cancelled,
            ) => Step::Stay,
        }
    }

    /// Whether the pod comes from a source on this host rather than from the API.
    pub fn is_static(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| crate::pod::is_static(spec))
    }
}
