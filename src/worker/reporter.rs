//! What a worker says of its pod: the facts that its status is made from, what it is doing, its events. The only place of the
//! worker that others read. Nothing is repeated while nothing changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Outcome;
use crate::pod::{PodEvents, WaitingReason};
use crate::status::timeline::TimelineStep;
use crate::status::{Activity, PodFacts, StatusCache, StatusHandle};
use crate::types::{EventKind, PodEvent, PodRef, WallClock};
use crate::volume::VolumeProblem;

/// How long an event that recurs is not sent to the API server again: as long as a stock kubelet's shortest pause between two
/// tries.
const REPEAT: Duration = Duration::from_secs(10);

/// Upstream's reason for whatever is wrong with a volume.
const FAILED_MOUNT: &str = "FailedMount";

/// Where workers report to. Cheap to clone.
#[derive(Clone)]
pub struct ReportSinks {
    /// Where what workers are doing is shown.
    pub status_cache: StatusCache,
    /// Where facts are left that pod statuses are made from.
    pub statuses: StatusHandle,
    /// Where events go, beside the log and the timeline.
    pub events: PodEvents,
    /// The time of day.
    pub clock: WallClock,
}

/// An event that was sent.
struct SentEvent {
    message: String,
    /// When it was last sent to the API server.
    at: Instant,
}

/// Reports on one pod.
pub(super) struct Reporter {
    pod: PodRef,
    sinks: ReportSinks,
    /// What the pod's status takes from its worker.
    pub(super) facts: PodFacts,
    /// When what containers wait for is tried again at the earliest, by name, as far as it is known.
    retries: BTreeMap<String, Timestamp>,
    /// What last went wrong in the present work.
    failure: Option<String>,
    /// The events last sent, by container and reason, so that none is logged again while nothing changes.
    sent: BTreeMap<(String, Cow<'static, str>), SentEvent>,
    /// What was last wrong with the pod's volumes, and when the API server was last sent that.
    volume_problems: Vec<(VolumeProblem, Instant)>,
}

impl Reporter {
    /// Reports on this pod.
    pub(super) fn new(pod: PodRef, sinks: ReportSinks) -> Self {
        Self {
            pod,
            sinks,
            facts: PodFacts::default(),
            retries: BTreeMap::new(),
            failure: None,
            sent: BTreeMap::new(),
            volume_problems: Vec::new(),
        }
    }

    /// The pod.
    pub(super) fn pod(&self) -> &PodRef {
        &self.pod
    }

    /// The time of day.
    pub(super) fn now(&self) -> Timestamp {
        self.sinks.clock.now()
    }

    /// New work begins on the pod, which may have another name by now.
    pub(super) fn work_begins(&mut self, pod: &PodRef) {
        self.failure = None;
        if self.pod != *pod {
            self.pod = pod.clone();
        }
    }

    /// The work has ended: shows what is waited for.
    pub(super) fn work_ended(&self, outcome: Outcome) {
        self.begin(match outcome {
            Outcome::Failed(_) => Activity::Retrying { error: self.failure.clone() },
            Outcome::Done { due: Some(_) } => Activity::BackingOff,
            Outcome::Done { due: None } | Outcome::PodEnded | Outcome::Cancelled => Activity::Idle,
        });
        self.leave_retries();
    }

    /// Shows that a step of the work begins.
    pub(super) fn begin(&self, activity: Activity) {
        self.sinks.status_cache.begin(&self.pod, activity, self.now());
    }

    /// Notes in the pod's timeline that it has come so far.
    pub(super) fn mark(&self, step: TimelineStep, detail: String) {
        self.sinks.status_cache.timeline().mark(&self.pod, step, detail, self.now());
    }

    /// Leaves the facts for the pod's status.
    pub(super) fn leave_facts(&self) {
        self.sinks.statuses.facts(&self.pod.uid, self.facts.clone());
    }

    /// The same after a container was started, which the next look at the runtime shows too.
    pub(super) fn leave_started(&self) {
        self.sinks.statuses.facts_soon_seen(&self.pod.uid, self.facts.clone());
    }

    /// Waits until the pod's status takes into account what was left so far.
    pub(super) async fn status_settled(&self) {
        self.sinks.statuses.settled(&self.pod.uid).await;
    }

    /// A container waits for this reason.
    pub(super) fn waits(&mut self, container: &str, reason: &str, message: impl Into<String>) {
        let reason = WaitingReason { reason: reason.to_owned(), message: message.into() };
        self.facts.waiting.insert(container.to_owned(), reason);
    }

    /// A container was started: it waits no more.
    pub(super) fn started(&mut self, container: &str) {
        self.facts.waiting.remove(container);
        self.facts.starting.remove(container);
    }

    /// These containers are being started: they keep the reason of the last try, the others wait for none.
    pub(super) fn starting(&mut self, names: impl Iterator<Item = String>) {
        let PodFacts { waiting, starting, .. } = &mut self.facts;
        *starting = names.collect();
        waiting.retain(|name, _| starting.contains(name));
        self.retries.clear();
    }

    /// What a container waits for is not tried again before this.
    pub(super) fn retries_at(&mut self, container: &str, at: Timestamp) {
        self.retries.insert(container.to_owned(), at);
    }

    /// Shows when what containers wait for is tried again. To be called before the status that says they wait: whoever reads
    /// that asks until when.
    pub(super) fn leave_retries(&self) {
        self.sinks.status_cache.retries(&self.pod.uid, self.retries.clone());
    }

    /// This went wrong in the present work.
    pub(super) fn failed(&mut self, failure: String) {
        self.failure = Some(failure);
    }

    /// What went wrong with a container (the empty name for the pod itself) went right: if it goes wrong again, that is
    /// news.
    pub(super) fn recovered(&mut self, container: &str) {
        self.sent.retain(|(name, _), _| name != container);
    }

    /// Sends an event. Work is tried again and again: an event that is the same as the last one of its reason is not logged
    /// again, and the API server, where equal events are counted in one object that lives for an hour after the last, is sent it
    /// now and then.
    pub(super) fn event(&mut self, container: Option<&str>, event: PodEvent) {
        match event.kind {
            EventKind::Warning => self.failure = Some(event.message.clone()),
            EventKind::Normal => {}
        }
        let key = (container.unwrap_or_default().to_owned(), event.reason.clone());
        let last = self.sent.get(&key).filter(|sent| sent.message == event.message);
        let at = match last {
            Some(sent) => self.repeat(container, &event, sent.at),
            None => {
                self.announce(container, &event);
                Instant::now()
            }
        };
        self.sent.insert(key, SentEvent { message: event.message, at });
    }

    /// Sends an event that happened once.
    pub(super) fn announce(&self, container: Option<&str>, event: &PodEvent) {
        let pod = &self.pod;
        self.sinks.status_cache.timeline().event(pod, container, event, self.now());
        (self.sinks.events)(pod, container, event);
        let (uid, reason, message) = (&pod.uid, &*event.reason, event.message.as_str());
        match event.kind {
            EventKind::Normal => tracing::info!(%pod, %uid, container, reason, "{message}"),
            EventKind::Warning => tracing::warn!(%pod, %uid, container, reason, "{message}"),
        }
    }

    /// Reports what is wrong with the pod's volumes, each problem as an event of its own.
    pub(super) fn volume_problems(&mut self, problems: &[VolumeProblem]) {
        let known = std::mem::take(&mut self.volume_problems);
        for problem in problems {
            let event = PodEvent::warning(FAILED_MOUNT, problem.to_string());
            let at = match known.iter().find(|(known, _)| known == problem) {
                Some((_, sent)) => self.repeat(None, &event, *sent),
                None => {
                    self.announce(None, &event);
                    Instant::now()
                }
            };
            self.volume_problems.push((problem.clone(), at));
        }
    }

    /// Sends the API server once more an event that it was sent `at`, if that was long ago. Answers when it was last sent.
    fn repeat(&self, container: Option<&str>, event: &PodEvent, at: Instant) -> Instant {
        let now = Instant::now();
        if now.saturating_duration_since(at) < REPEAT {
            return at;
        }
        (self.sinks.events)(&self.pod, container, event);
        now
    }
}
