//! Sends the events of a pod to the log, the timeline and the API server, and shows its pulls. Nothing is repeated while nothing
//! changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::report_sinks::ReportSinks;
use hostlet_base::{EventKind, PodEvent, PodRef};
use hostlet_observe::status::ImagePull;
use hostlet_pod::{AdmittedPod, ContainerKind, ContainerRef};

/// The least time between two equal events to the API server: the stock kubelet's shortest pause between two retries.
const REPEAT: Duration = Duration::from_secs(10);

/// An event that was sent.
struct SentEvent {
    message: String,
    /// When it was last sent to the API server.
    at: Instant,
}

/// The last event by container and reason.
type SentEvents = BTreeMap<(String, Cow<'static, str>), SentEvent>;

/// Sends the events of one pod. Clones share what was sent, and each keeps the pod as it was.
#[derive(Clone)]
pub(super) struct EventSender {
    pub(super) pod: PodRef,
    /// The pod with its spec; none if it is known only from the runtime.
    pub(super) admitted: Option<Arc<AdmittedPod>>,
    pub(super) sinks: ReportSinks,
    /// So that none is logged again while nothing changes.
    sent: Arc<Mutex<SentEvents>>,
}

impl EventSender {
    pub(super) fn new(pod: PodRef, sinks: ReportSinks) -> Self {
        Self { pod, admitted: None, sinks, sent: Arc::default() }
    }

    /// Sends an event. Work is retried many times: an event equal to the last one of its reason is not logged again, and is
    /// sent to the API server every ten seconds at most. The API server counts equal events in one object, which expires an
    /// hour after the last.
    pub(super) fn event(&self, container: Option<&str>, event: PodEvent) {
        let key = (container.unwrap_or_default().to_owned(), event.reason.clone());
        let now = Instant::now();
        let is_new = {
            let mut sent = self.sent.lock();
            let last = sent.get(&key).filter(|sent| sent.message == event.message);
            if last.is_some_and(|sent| !may_repeat(sent.at, now)) {
                return;
            }
            let is_new = last.is_none();
            sent.insert(key, SentEvent { message: event.message.clone(), at: now });
            is_new
        };
        if is_new { self.announce(container, &event) } else { self.send(container, &event) }
    }

    /// Sends an event without suppressing repetitions.
    pub(super) fn announce(&self, container: Option<&str>, event: &PodEvent) {
        let pod = &self.pod;
        self.sinks.timeline.event(pod, container, event, self.sinks.clock.now());
        self.send(container, event);
        let (uid, reason, message) = (&pod.uid, &*event.reason, event.message.as_str());
        match event.kind {
            EventKind::Normal => tracing::info!(%pod, %uid, container, reason, "{message}"),
            EventKind::Warning => tracing::warn!(%pod, %uid, container, reason, "{message}"),
        }
    }

    /// Sends an event last sent `at` to the API server again unless that was less than [`REPEAT`] ago. Returns when it was
    /// last sent.
    pub(super) fn repeat(&self, container: Option<&str>, event: &PodEvent, at: Instant) -> Instant {
        let now = Instant::now();
        if !may_repeat(at, now) {
            return at;
        }
        self.send(container, event);
        now
    }

    /// A container recovered, or the pod if the name is empty: if it fails again, that is reported again.
    pub(super) fn recovered(&self, container: &str) {
        self.sent.lock().retain(|(name, _), _| name != container);
    }

    /// Shows that an image is being pulled, until the result is dropped.
    pub(super) fn pulling(&self, pull: &ImagePull) -> ShownPull {
        self.sinks.activities.pull_begins(&self.pod, pull, self.sinks.clock.now());
        ShownPull { events: self.clone(), pull: pull.clone() }
    }

    /// Sends an event to the API server.
    fn send(&self, container: Option<&str>, event: &PodEvent) {
        let reference = |name: &str| {
            let known = self.admitted.as_ref().and_then(|pod| pod.reference_to(name));
            known.unwrap_or_else(|| ContainerRef { kind: ContainerKind::Main, name: name.to_owned() })
        };
        (self.sinks.events)(&self.pod, container.map(reference).as_ref(), event);
    }
}

/// Whether an event last sent `at` may be sent to the API server again.
fn may_repeat(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) >= REPEAT
}

/// A pull that the pod's timeline shows as under way.
pub(super) struct ShownPull {
    events: EventSender,
    pull: ImagePull,
}

impl Drop for ShownPull {
    fn drop(&mut self) {
        let EventSender { pod, sinks, .. } = &self.events;
        sinks.activities.pull_ends(pod, &self.pull, sinks.clock.now());
    }
}
