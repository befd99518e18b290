//! The lifecycle of one pod: `Waiting → Syncing → Terminating → Terminated → Finished`, never back. Pure: decides which work
//! comes next, performs none.
//!
//! A lifecycle finishes only through Terminating and Terminated; each is left when its work succeeded. Once a pod is
//! Terminating, none of its containers is started again under this UID until the table has forgotten the pod.

use std::sync::Arc;

use hostlet_base::{PodRef, reasons};
use hostlet_pod::{AdmittedPod, PodPhase, RestartPolicy, StatusOverride};
use tokio::sync::oneshot;

use crate::gate::Urgency;
use crate::worker::{Content, Outcome, PAST_DEADLINE, Work};

/// Shortest grace period: a pod deleted with 0 must still be stopped (as upstream).
const MIN_GRACE_SECONDS: i64 = 1;

/// What a source, the runtime or the node requests of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    /// The pod is new.
    Create,
    /// Its spec changed.
    Update,
    /// Its containers must stop.
    Kill,
    /// The same, and nothing of it is kept: its source no longer names it.
    Remove,
}

/// Which pod an update is about.
#[derive(Clone, Debug)]
pub(crate) enum UpdateSubject {
    Spec(Arc<AdmittedPod>),
    /// A pod known only from the runtime.
    Runtime {
        pod: PodRef,
        /// Grace period from its containers' annotations, seconds.
        grace_seconds: Option<i64>,
    },
}

/// How to kill.
#[derive(Debug, Default)]
pub(crate) struct KillRequest {
    /// Dropped once no container of the pod runs.
    pub done: Option<oneshot::Sender<()>>,
    /// The node needs the pod's resources: its stopped containers are removed as well.
    pub evict: bool,
    /// The pod's final status; the last request wins.
    pub status: Option<StatusOverride>,
    /// Grace period, seconds; can only shorten an earlier one.
    pub grace_seconds: Option<i64>,
}

/// One update of a pod.
#[derive(Debug)]
pub(crate) struct PodUpdate {
    /// What is requested.
    pub kind: UpdateKind,
    /// Of which pod.
    pub subject: UpdateSubject,
    /// How to kill, for [`UpdateKind::Kill`] and for pods that are terminating already.
    pub kill: Option<KillRequest>,
}

/// The phase of a pod's lifecycle.
#[derive(Debug)]
pub(crate) enum LifecyclePhase {
    /// Known, nothing done yet. A static pod waits here for its predecessor of the same full name to finish.
    Waiting,
    /// Its containers are made to match its spec.
    Syncing,
    /// Its containers are being stopped.
    Terminating {
        /// Grace period, seconds; can only shrink.
        grace_seconds: i64,
        /// Its final status.
        status: Option<StatusOverride>,
        /// Raised once the node needs the pod's resources.
        urgency: Urgency,
        /// Dropped when this phase is left.
        waiting: Vec<oneshot::Sender<()>>,
    },
    /// No container runs; its resources are being released.
    Terminated {
        /// Its final status.
        status: Option<StatusOverride>,
    },
    /// Nothing is left to do.
    Finished,
}

/// What follows from an update or from completed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Nothing.
    Stay,
    /// The next work should start now.
    Advance,
    /// The next work should start now, and the work under way must be cancelled.
    Interrupt,
}

/// The lifecycle of one pod.
#[derive(Debug)]
pub(crate) struct PodLifecycle {
    pod: PodRef,
    spec: Option<Arc<AdmittedPod>>,
    phase: LifecyclePhase,
    content: Content,
    /// The runtime has, or may have, containers of it from before it was started here.
    seen_running: bool,
    /// The UID was created again while this lifecycle was terminating.
    restart_requested: bool,
    /// Grace period from its containers' annotations, for a pod without a spec.
    runtime_grace: Option<i64>,
}

impl PodLifecycle {
    /// A pod seen for the first time.
    pub(crate) fn new(subject: &UpdateSubject, pod: PodRef) -> Self {
        let (spec, runtime_grace) = match subject {
            UpdateSubject::Spec(spec) => (Some(spec.clone()), None),
            UpdateSubject::Runtime { grace_seconds, .. } => (None, *grace_seconds),
        };
        Self {
            pod,
            spec,
            phase: LifecyclePhase::Waiting,
            content: Content::Keep,
            seen_running: runtime_grace.is_some(),
            restart_requested: false,
            runtime_grace,
        }
    }

    /// Records that an earlier daemon may have started the pod, so that it has to be stopped.
    pub(crate) fn may_run(&mut self) {
        self.seen_running = true;
    }

    pub(crate) fn pod(&self) -> &PodRef {
        &self.pod
    }

    /// Its newest spec; none for a pod known only from the runtime.
    pub(crate) fn spec(&self) -> Option<&Arc<AdmittedPod>> {
        self.spec.as_ref()
    }

    pub(crate) fn phase(&self) -> &LifecyclePhase {
        &self.phase
    }

    /// Whether its UID was created again while it was terminating.
    pub(crate) fn restart_requested(&self) -> bool {
        self.restart_requested
    }

    /// Applies an update. A kill that is moot completes at once: its sender is dropped.
    pub(crate) fn update(&mut self, update: PodUpdate) -> Transition {
        let PodUpdate { kind, subject, kill } = update;
        let is_orphan = match subject {
            UpdateSubject::Spec(spec) => {
                match self.phase {
                    // The new spec does not concern this lifecycle, which finishes with its own; it waits for the next one.
                    LifecyclePhase::Terminating { .. }
                    | LifecyclePhase::Terminated { .. }
                    | LifecyclePhase::Finished
                        if kind == UpdateKind::Create =>
                    {
                        self.restart_requested = true;
                        self.keep_for_restart();
                        return Transition::Stay;
                    }
                    LifecyclePhase::Waiting
                    | LifecyclePhase::Syncing
                    | LifecyclePhase::Terminating { .. }
                    | LifecyclePhase::Terminated { .. }
                    | LifecyclePhase::Finished => {}
                }
                // Nor does what changes the new spec meanwhile.
                if !self.restart_requested {
                    self.spec = Some(spec);
                }
                false
            }
            UpdateSubject::Runtime { grace_seconds, .. } => {
                if kind != UpdateKind::Kill {
                    // A pod known only from the runtime can only be stopped.
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
        match &self.phase {
            LifecyclePhase::Waiting | LifecyclePhase::Syncing => self.maybe_terminate(kind, is_orphan, kill),
            LifecyclePhase::Terminating { .. } => self.kill_again(kill),
            // Nothing runs, so the kill is complete; it does not change the cleanup.
            LifecyclePhase::Terminated { .. } => Transition::Advance,
            LifecyclePhase::Finished => Transition::Stay,
        }
    }

    /// A static pod that runs again with the same UID continues the attempts of its containers, as upstream, if nothing was removed
    /// yet. Only if its policy starts all of them again: otherwise the new pod would take their ends for its own.
    fn keep_for_restart(&mut self) {
        let restarts = |spec: &AdmittedPod| spec.is_static && spec.restart_policy == RestartPolicy::Always;
        if matches!(self.phase, LifecyclePhase::Terminating { .. })
            && self.spec.as_deref().is_some_and(restarts)
        {
            self.content = Content::Keep;
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
        let is_requested = match kind {
            UpdateKind::Kill | UpdateKind::Remove => true,
            UpdateKind::Create | UpdateKind::Update => false,
        };
        if !is_deleted && !has_ended && !is_requested {
            return Transition::Advance;
        }
        self.terminate(kill.unwrap_or_default());
        Transition::Interrupt
    }

    /// No source names the pod anymore.
    pub(crate) fn orphan(&mut self) -> Transition {
        self.content = Content::Remove;
        match &self.phase {
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
        if matches!(self.phase, LifecyclePhase::Waiting) && self.is_static() && !self.seen_running {
            self.phase = LifecyclePhase::Finished;
            return;
        }
        let urgency = Urgency::default();
        if kill.evict {
            urgency.raise();
        }
        self.phase = LifecyclePhase::Terminating {
            grace_seconds: self.grace(None, kill.grace_seconds),
            status: kill.status,
            urgency,
            waiting: kill.done.into_iter().collect(),
        };
    }

    fn kill_again(&mut self, kill: Option<KillRequest>) -> Transition {
        let kill = kill.unwrap_or_default();
        let LifecyclePhase::Terminating { grace_seconds, .. } = &self.phase else { return Transition::Stay };
        let old = *grace_seconds;
        let new = self.grace(Some(old), kill.grace_seconds);
        if kill.evict {
            self.content = Content::Remove;
        }
        let LifecyclePhase::Terminating { grace_seconds, status, urgency, waiting } = &mut self.phase else {
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

    /// The grace period in force: the shortest requested so far, or the spec's own.
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

    /// Moves a waiting pod to Syncing. The caller has checked that it may start.
    pub(crate) fn start(&mut self) {
        if matches!(self.phase, LifecyclePhase::Waiting) {
            self.phase = LifecyclePhase::Syncing;
        }
    }

    /// The grace period in force, seconds; none unless the pod is terminating.
    pub(crate) fn grace_seconds(&self) -> Option<i64> {
        match &self.phase {
            LifecyclePhase::Terminating { grace_seconds, .. } => Some(*grace_seconds),
            LifecyclePhase::Waiting
            | LifecyclePhase::Syncing
            | LifecyclePhase::Terminated { .. }
            | LifecyclePhase::Finished => None,
        }
    }

    /// The work of this phase; none while waiting and once finished.
    pub(crate) fn work(&self) -> Option<Work> {
        match (&self.phase, &self.spec) {
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

    /// Applies the outcome of `work`, which [`Self::work`] returned.
    ///
    /// The work is passed because the phase may have moved on while it ran: a sync that completes after the pod was killed
    /// must not complete the kill.
    pub(crate) fn completed(&mut self, work: &Work, outcome: Outcome) -> Transition {
        match (&mut self.phase, work, outcome) {
            (LifecyclePhase::Syncing, Work::Sync(_), Outcome::PodEnded) => {
                self.terminate(KillRequest::default());
                Transition::Advance
            }
            (LifecyclePhase::Syncing, Work::Sync(_), Outcome::DeadlineExceeded) => {
                self.terminate(KillRequest { status: Some(deadline_exceeded()), ..KillRequest::default() });
                Transition::Advance
            }
            (LifecyclePhase::Syncing, Work::Sync(_), Outcome::Rejected(rejection)) => {
                let status = Some(rejection.into_status());
                self.terminate(KillRequest { status, ..KillRequest::default() });
                Transition::Advance
            }
            (
                LifecyclePhase::Terminating { status, waiting, .. },
                Work::Terminate { .. },
                Outcome::Done { .. },
            ) => {
                waiting.clear();
                let status = status.take();
                self.phase = LifecyclePhase::Terminated { status };
                Transition::Advance
            }
            (LifecyclePhase::Terminating { .. }, Work::Reap { .. }, Outcome::Done { .. })
            | (LifecyclePhase::Terminated { .. }, Work::Reap { .. }, Outcome::Done { .. }) => {
                self.phase = LifecyclePhase::Finished;
                Transition::Stay
            }
            (LifecyclePhase::Terminated { .. }, Work::Finish { content, .. }, Outcome::Done { .. }) => {
                if *content != self.content {
                    // It was deleted while the cleanup kept its content.
                    return Transition::Advance;
                }
                self.phase = LifecyclePhase::Finished;
                Transition::Stay
            }
            (
                LifecyclePhase::Waiting
                | LifecyclePhase::Syncing
                | LifecyclePhase::Terminating { .. }
                | LifecyclePhase::Terminated { .. }
                | LifecyclePhase::Finished,
                Work::Sync(_) | Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. },
                Outcome::Done { .. }
                | Outcome::PodEnded
                | Outcome::DeadlineExceeded
                | Outcome::Rejected(_)
                | Outcome::Failed(_)
                | Outcome::Cancelled,
            ) => Transition::Stay,
        }
    }

    /// Whether the pod comes from a source on this host rather than from the API.
    pub(crate) fn is_static(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.is_static)
    }
}

/// The final status of a pod that was active for too long.
fn deadline_exceeded() -> StatusOverride {
    StatusOverride {
        phase: PodPhase::Failed,
        reason: reasons::DEADLINE_EXCEEDED.to_owned(),
        message: PAST_DEADLINE.to_owned(),
        disruption: None,
    }
}
