//! What a worker publishes about its pod: the facts of its status, its present activity, its events. The only part of a worker
//! that others see.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::events::EventSender;
use super::report_sinks::ReportSinks;
use super::same_cause::is_same_cause;
use super::{Outcome, Work};
use hostlet_base::{ContainerId, EventKind, PodEvent, PodRef, reasons};
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_observe::status::{Activity, ContainerKill, PodFacts};
use hostlet_pod::WaitingReason;
use hostlet_volume::VolumeProblem;

/// Reports on one pod.
pub(super) struct Reporter {
    events: EventSender,
    /// The facts of the pod's status.
    pub(super) facts: PodFacts,
    /// By container: the earliest retry of what it waits for, where known.
    retries: BTreeMap<String, Timestamp>,
    /// The last failure of the present work.
    failure: Option<String>,
    /// The present problems of the pod's volumes, and when each was last sent to the API server.
    volume_problems: Vec<(VolumeProblem, Instant)>,
}

impl Reporter {
    /// Reports on this pod.
    pub(super) fn new(pod: PodRef, sinks: ReportSinks) -> Self {
        Self {
            events: EventSender::new(pod, sinks),
            facts: PodFacts::default(),
            retries: BTreeMap::new(),
            failure: None,
            volume_problems: Vec::new(),
        }
    }

    pub(super) fn pod(&self) -> &PodRef {
        &self.events.pod
    }

    /// Sends events of the pod as it is now, also while this reporter is in use.
    pub(super) fn events(&self) -> &EventSender {
        &self.events
    }

    fn sinks(&self) -> &ReportSinks {
        &self.events.sinks
    }

    /// The time of day.
    pub(super) fn now(&self) -> Timestamp {
        self.sinks().clock.now()
    }

    /// The time of a clock that nobody sets, for durations.
    pub(super) fn steady(&self) -> Timestamp {
        self.sinks().clock.steady()
    }

    /// The time since the host booted.
    pub(super) fn uptime(&self) -> Duration {
        self.sinks().clock.uptime()
    }

    /// When the pod was started by its status, if it has one.
    pub(super) fn start_time(&self) -> Option<Timestamp> {
        self.sinks().status_cache.start_time(&self.pod().uid)
    }

    /// Begins new work on the pod, which may have been renamed.
    pub(super) fn work_begins(&mut self, work: &Work) {
        self.failure = None;
        self.events.admitted = work.admitted().cloned();
        if self.events.pod != *work.pod() {
            self.events.pod = work.pod().clone();
        }
    }

    /// Ends the work: shows what the pod waits for now.
    pub(super) fn work_ended(&self, outcome: &Outcome) {
        self.begin(match outcome {
            Outcome::Failed(_) => Activity::Retrying { error: self.failure.clone() },
            Outcome::Done { due: Some(_) } => Activity::BackingOff,
            Outcome::Done { due: None }
            | Outcome::PodEnded
            | Outcome::DeadlineExceeded
            | Outcome::Rejected(_)
            | Outcome::Cancelled => Activity::Idle,
        });
        self.publish_retries();
    }

    /// Shows what the worker does from now on.
    pub(super) fn begin(&self, activity: Activity) {
        self.sinks().activities.begin(self.pod(), activity, self.now());
    }

    /// Adds a step to the pod's timeline.
    pub(super) fn mark(&self, step: TimelineStep, detail: String) {
        self.sinks().timeline.mark(self.pod(), step, detail, self.now());
    }

    /// Publishes the facts to the owner of statuses.
    pub(super) fn publish_facts(&self) {
        self.sinks().statuses.facts(&self.pod().uid, self.facts.clone());
    }

    /// Publishes the facts after a container was started. The status may wait a moment for the next relist, which shows it too.
    pub(super) fn publish_started(&self) {
        self.sinks().statuses.facts_soon_seen(&self.pod().uid, self.facts.clone());
    }

    /// Waits until the pod's status reflects the facts published so far.
    pub(super) async fn status_settled(&self) {
        self.sinks().statuses.settled(&self.pod().uid).await;
    }

    /// Records why a container waits.
    pub(super) fn waits(&mut self, container: &str, reason: &str, message: impl Into<String>) {
        let reason = WaitingReason { reason: reason.to_owned(), message: message.into() };
        self.facts.waiting.insert(container.to_owned(), reason);
    }

    /// Records that a container was started and no longer waits.
    pub(super) fn started(&mut self, container: &str) {
        self.facts.waiting.remove(container);
        self.facts.starting.remove(container);
    }

    /// Records that these containers are being started. They keep the waiting reason of the last attempt; the others lose theirs.
    pub(super) fn starting(&mut self, names: impl Iterator<Item = String>) {
        let PodFacts { waiting, starting, .. } = &mut self.facts;
        *starting = names.collect();
        waiting.retain(|name, _| starting.contains(name));
        self.retries.clear();
    }

    /// Records that what a container waits for is not retried before `at`.
    pub(super) fn retries_at(&mut self, container: &str, at: Timestamp) {
        self.retries.insert(container.to_owned(), at);
    }

    /// Shows when containers are retried. Call it before publishing their waiting reasons: readers of those look up this
    /// time.
    pub(super) fn publish_retries(&self) {
        self.sinks().activities.retries(&self.pod().uid, self.retries.clone());
    }

    /// Shows which pull Secrets are missing, now that a pull failed.
    pub(super) fn missing_secrets(&self, names: Vec<String>) {
        self.sinks().activities.missing_secrets(&self.pod().uid, names);
    }

    /// Records a failure of the present work.
    pub(super) fn failed(&mut self, failure: String) {
        self.failure = Some(failure);
    }

    /// Records that the last failure was in setting up what containers need. The same cause in other words changes nothing.
    pub(super) fn setup_failed(&mut self) {
        let known = &mut self.facts.setup_error;
        match (&*known, &self.failure) {
            (Some(known), Some(failure)) if is_same_cause(known, failure) => {}
            (_, failure) => known.clone_from(failure),
        }
    }

    /// Records that a container recovered, or the pod if the name is empty: if it fails again, that is reported again.
    pub(super) fn recovered(&self, container: &str) {
        self.events.recovered(container);
    }

    /// Sends an event (see [`EventSender::event`]). A warning is a failure of the present work.
    pub(super) fn event(&mut self, container: Option<&str>, event: PodEvent) {
        match event.kind {
            EventKind::Warning => self.failure = Some(event.message.clone()),
            EventKind::Normal => {}
        }
        self.events.event(container, event);
    }

    /// Sends an event without suppressing repetitions.
    pub(super) fn announce(&self, container: Option<&str>, event: &PodEvent) {
        self.events.announce(container, event);
    }

    /// Announces that a container begins to be stopped, and records it.
    pub(super) fn killing(&self, container: &str, id: &ContainerId, why: &str) {
        let kill = ContainerKill {
            container: container.to_owned(),
            id: id.clone(),
            at: self.now(),
            why: why.to_owned(),
        };
        self.sinks().activities.killed(&self.pod().uid, kill);
        self.announce(Some(container), &PodEvent::normal(reasons::KILLING, why.to_owned()));
    }

    /// Sends each problem of the pod's volumes as an event.
    pub(super) fn volume_problems<'a>(&mut self, problems: impl Iterator<Item = &'a VolumeProblem>) {
        let known = std::mem::take(&mut self.volume_problems);
        for problem in problems {
            let event = PodEvent::warning(problem.reason(), problem.to_string());
            let at = match known.iter().find(|(known, _)| known == problem) {
                Some((_, sent)) => self.events.repeat(None, &event, *sent),
                None => {
                    self.announce(None, &event);
                    Instant::now()
                }
            };
            self.volume_problems.push((problem.clone(), at));
        }
    }
}
