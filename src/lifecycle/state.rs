//! The life of one pod: `Waiting → Syncing → Terminating → Terminated → Finished`, never back. Pure: decides what work is
//! next, performs none.
//!
//! A life ends only by way of Terminating and Terminated, each left when its work succeeded. Once Terminating is
//! entered nothing of the pod is started again under this UID, until the table forgot it.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::gate::Urgency;
use crate::pod::{AdmittedPod, StatusOverride};
use crate::types::PodRef;
use crate::worker::{Content, Outcome, Work};

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
pub enum UpdateSubject {
    /// A pod with its spec.
    Spec(Arc<AdmittedPod>),
    /// A pod known from the runtime only, and the grace period its containers were made with, seconds.
    Runtime {
        /// The pod.
        pod: PodRef,
        /// Seconds from its containers' annotations.
        grace_seconds: Option<i64>,
    },
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
    pub subject: UpdateSubject,
    /// How to kill, for [`UpdateKind::Kill`] and for pods that terminate already.
    pub kill: Option<KillRequest>,
}

/// Where a pod is in its life.
#[derive(Debug)]
pub enum LifecyclePhase {
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

/// What an update or the end of work leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Nothing.
    Stay,
    /// The next work should start now.
    Advance,
    /// The next work should start now, and work under way must end early.
    Interrupt,
}

/// The life of one pod.
#[derive(Debug)]
pub struct PodLifecycle {
    pod: PodRef,
    spec: Option<Arc<AdmittedPod>>,
    stage: LifecyclePhase,
    content: Content,
    /// Something of it was seen in the runtime, or may be there, before it was started here.
    seen_running: bool,
    /// The UID was wanted anew while this life was ending.
    restart_requested: bool,
    /// Grace period its containers tell, for a pod without a spec.
    runtime_grace: Option<i64>,
}

impl PodLifecycle {
    /// A pod heard of for the first time.
    pub fn new(subject: &UpdateSubject, pod: PodRef) -> Self {
        let (spec, runtime_grace) = match subject {
            UpdateSubject::Spec(spec) => (Some(spec.clone()), None),
            UpdateSubject::Runtime { grace_seconds, .. } => (None, *grace_seconds),
        };
        Self {
            pod,
            spec,
            stage: LifecyclePhase::Waiting,
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
    pub fn spec(&self) -> Option<&Arc<AdmittedPod>> {
        self.spec.as_ref()
    }

    /// Where it is in its life.
    pub fn stage(&self) -> &LifecyclePhase {
        &self.stage
    }

    /// Whether its UID was wanted anew while it was ending.
    pub fn restart_requested(&self) -> bool {
        self.restart_requested
    }

    /// Takes in an update. Whoever waits on a kill that is moot is answered by dropping its sender.
    pub fn update(&mut self, update: PodUpdate) -> Transition {
        let PodUpdate { kind, subject, kill } = update;
        let is_orphan = match subject {
            UpdateSubject::Spec(spec) => {
                match self.stage {
                    // The life that ends, ends with the spec it had; the new one waits for the next life.
                    LifecyclePhase::Terminating { .. }
                    | LifecyclePhase::Terminated { .. }
                    | LifecyclePhase::Finished
                        if kind == UpdateKind::Create =>
                    {
                        self.restart_requested = true;
                        return Transition::Stay;
                    }
                    LifecyclePhase::Waiting
                    | LifecyclePhase::Syncing
                    | LifecyclePhase::Terminating { .. }
                    | LifecyclePhase::Terminated { .. }
                    | LifecyclePhase::Finished => {}
                }
                self.spec = Some(spec);
                false
            }
            UpdateSubject::Runtime { grace_seconds, .. } => {
                if kind != UpdateKind::Kill {
                    // What only the runtime knows can only be stopped.
                    return Transition::Stay;
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
            LifecyclePhase::Waiting | LifecyclePhase::Syncing => self.maybe_terminate(kind, is_orphan, kill),
            LifecyclePhase::Terminating { .. } => self.kill_again(kill),
            // Nothing runs any more, so the kill is done; cleaning up does not change with it.
            LifecyclePhase::Terminated { .. } => Transition::Advance,
            LifecyclePhase::Finished => Transition::Stay,
        }
    }

    fn maybe_terminate(
        &mut self,
        kind: UpdateKind,
        is_orphan: bool,
        kill: Option<KillRequest>,
    ) -> Transition {
        let is_deleted = is_orphan || self.spec.as_ref().is_some_and(|spec| spec.is_deleted());
        let has_ended = self.spec.as_ref().is_some_and(|spec| spec.has_ended());
        if is_deleted {
            self.content = Content::Remove;
        }
        let is_asked = match kind {
            UpdateKind::Kill | UpdateKind::Remove => true,
            UpdateKind::Create | UpdateKind::Update | UpdateKind::Sync => false,
        };
        if !is_deleted && !has_ended && !is_asked {
            return Transition::Advance;
        }
        self.terminate(kill.unwrap_or_default());
        Transition::Interrupt
    }

    /// The pod is no longer wanted by any source.
    pub fn orphan(&mut self) -> Transition {
        self.content = Content::Remove;
        match &self.stage {
            LifecyclePhase::Waiting | LifecyclePhase::Syncing => {
                self.terminate(KillRequest::default());
                Transition::Interrupt
            }
            LifecyclePhase::Terminating { .. } | LifecyclePhase::Terminated { .. } => Transition::Advance,
            LifecyclePhase::Finished => Transition::Stay,
        }
    }

    fn terminate(&mut self, kill: KillRequest) {
        if kill.evict {
            self.content = Content::Remove;
        }
        // A static pod that never started here and was never seen running has nothing to stop.
        if matches!(self.stage, LifecyclePhase::Waiting) && self.is_static() && !self.seen_running {
            self.stage = LifecyclePhase::Finished;
            return;
        }
        let urgency = Urgency::default();
        if kill.evict {
            urgency.raise();
        }
        self.stage = LifecyclePhase::Terminating {
            grace_seconds: self.grace(None, kill.grace_seconds),
            status: kill.status,
            urgency,
            waiting: kill.done.into_iter().collect(),
        };
    }

    fn kill_again(&mut self, kill: Option<KillRequest>) -> Transition {
        let kill = kill.unwrap_or_default();
        let LifecyclePhase::Terminating { grace_seconds, .. } = &self.stage else { return Transition::Stay };
        let old = *grace_seconds;
        let new = self.grace(Some(old), kill.grace_seconds);
        if kill.evict {
            self.content = Content::Remove;
        }
        let LifecyclePhase::Terminating { grace_seconds, status, urgency, waiting } = &mut self.stage else {
            return Transition::Stay;
        };
        if kill.evict {
            urgency.raise();
        }
        *grace_seconds = new;
        if kill.status.is_some() {
            *status = kill.status;
        }
        waiting.extend(kill.done);
        if new < old { Transition::Interrupt } else { Transition::Advance }
    }

    /// The grace period in force: the shortest of those asked for so far; the spec's own when nobody asked.
    fn grace(&self, current: Option<i64>, requested: Option<i64>) -> i64 {
        let deletion = self.spec.as_ref().and_then(|s| s.metadata.deletion_grace_period_seconds);
        let own = self.spec.as_ref().and_then(|s| s.grace_seconds);
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
        if matches!(self.stage, LifecyclePhase::Waiting) {
            self.stage = LifecyclePhase::Syncing;
        }
    }

    /// The grace period in force, seconds; none unless it is being stopped.
    pub fn grace_seconds(&self) -> Option<i64> {
        match &self.stage {
            LifecyclePhase::Terminating { grace_seconds, .. } => Some(*grace_seconds),
            LifecyclePhase::Waiting
            | LifecyclePhase::Syncing
            | LifecyclePhase::Terminated { .. }
            | LifecyclePhase::Finished => None,
        }
    }

    /// The work of the present stage; none while waiting and once finished.
    pub fn work(&self) -> Option<Work> {
        match (&self.stage, &self.spec) {
            (LifecyclePhase::Waiting | LifecyclePhase::Finished, _) | (LifecyclePhase::Syncing, None) => None,
            (LifecyclePhase::Syncing, Some(spec)) => Some(Work::Sync(spec.clone())),
            (LifecyclePhase::Terminating { grace_seconds, status, urgency, .. }, Some(spec)) => {
                Some(Work::Terminate {
                    pod: spec.clone(),
                    grace_seconds: *grace_seconds,
                    status: status.clone(),
                    urgency: urgency.clone(),
                })
            }
            (LifecyclePhase::Terminating { grace_seconds, .. }, None) => {
                Some(Work::Reap { pod: self.pod.clone(), grace_seconds: *grace_seconds })
            }
            (LifecyclePhase::Terminated { .. }, None) => {
                Some(Work::Reap { pod: self.pod.clone(), grace_seconds: MIN_GRACE_SECONDS })
            }
            (LifecyclePhase::Terminated { status }, Some(spec)) => {
                Some(Work::Finish { pod: spec.clone(), status: status.clone(), content: self.content })
            }
        }
    }

    /// Takes in that `work`, which this life gave out, succeeded (or that the pod has ended, for a sync).
    ///
    /// The work is passed because the stage may have moved on while it ran: a sync that ends after the pod was killed
    /// must not finish the kill.
    pub fn completed(&mut self, work: &Work, outcome: Outcome) -> Transition {
        match (&mut self.stage, work, outcome) {
            (LifecyclePhase::Syncing, Work::Sync(_), Outcome::PodEnded) => {
                self.terminate(KillRequest::default());
                Transition::Advance
            }
            (
                LifecyclePhase::Terminating { status, waiting, .. },
                Work::Terminate { .. },
                Outcome::Done { .. },
            ) => {
                waiting.clear();
                let status = status.take();
                self.stage = LifecyclePhase::Terminated { status };
                Transition::Advance
            }
            (LifecyclePhase::Terminating { .. }, Work::Reap { .. }, Outcome::Done { .. })
            | (LifecyclePhase::Terminated { .. }, Work::Reap { .. }, Outcome::Done { .. }) => {
                self.stage = LifecyclePhase::Finished;
                Transition::Stay
            }
            (LifecyclePhase::Terminated { .. }, Work::Finish { content, .. }, Outcome::Done { .. }) => {
                if *content != self.content {
                    // It was deleted while its content was being kept.
                    return Transition::Advance;
                }
                self.stage = LifecyclePhase::Finished;
                Transition::Stay
            }
            (
                LifecyclePhase::Waiting
                | LifecyclePhase::Syncing
                | LifecyclePhase::Terminating { .. }
                | LifecyclePhase::Terminated { .. }
                | LifecyclePhase::Finished,
                Work::Sync(_) | Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. },
                Outcome::Done { .. } | Outcome::PodEnded | Outcome::Failed(_) | Outcome::Cancelled,
            ) => Transition::Stay,
        }
    }

    /// Whether the pod comes from a source on this host rather than from the API.
    pub fn is_static(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.is_static)
    }
}
