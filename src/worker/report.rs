//! Reporting on a pod: the facts that its status is made from, its events. Nothing is repeated while nothing changes.

use std::time::Duration;

use tokio::time::Instant;

use super::Memory;
use super::memory::ReportedEvent;
use super::syncer::WorkerContext;
use crate::types::{EventKind, PodEvent, PodRef};

/// How long an event that is told again and again is not told to the API server again: as long as a stock kubelet's shortest
/// pause between two tries.
const REPEAT: Duration = Duration::from_secs(10);

impl WorkerContext {
    /// Leaves what the pod's status takes from its worker.
    pub(super) fn leave_facts(&self, pod: &PodRef, memory: &Memory) {
        self.statuses.facts(&pod.uid, memory.facts.clone());
    }

    /// The same after a container was started, which the next look at the runtime shows too.
    pub(super) fn leave_started(&self, pod: &PodRef, memory: &Memory) {
        self.statuses.facts_soon_seen(&pod.uid, memory.facts.clone());
    }

    /// Tells an event. Work is tried again and again: an event that is the same as the last one of its reason is not logged
    /// again, and the API server, where equal events are counted in one object that lives for an hour after the last, is told of it now and
    /// then.
    pub(super) fn event(&self, pod: &PodRef, container: Option<&str>, event: PodEvent, memory: &mut Memory) {
        match event.kind {
            EventKind::Warning => memory.failure = Some(event.message.clone()),
            EventKind::Normal => {}
        }
        let key = (container.unwrap_or_default().to_owned(), event.reason);
        let now = Instant::now();
        match memory.told.get_mut(&key) {
            Some(told) if told.message == event.message => {
                told.at = self.repeat(pod, container, &event, told.at, now);
            }
            Some(_) | None => {
                self.announce(pod, container, &event);
                memory.told.insert(key, ReportedEvent { message: event.message, at: now });
            }
        }
    }

    /// Tells the API server once more of an event that it was told `at`, if that was long ago. Answers when it was last told.
    pub(super) fn repeat(
        &self,
        pod: &PodRef,
        container: Option<&str>,
        event: &PodEvent,
        at: Instant,
        now: Instant,
    ) -> Instant {
        if now.saturating_duration_since(at) < REPEAT {
            return at;
        }
        (self.events)(pod, container, event);
        now
    }

    /// Tells an event that happened once.
    pub(super) fn announce(&self, pod: &PodRef, container: Option<&str>, event: &PodEvent) {
        self.status_cache.timeline().event(pod, container, event, self.clock.now());
        (self.events)(pod, container, event);
        let (uid, reason, message) = (&pod.uid, event.reason, event.message.as_str());
        match event.kind {
            EventKind::Normal => tracing::info!(%pod, %uid, container, reason, "{message}"),
            EventKind::Warning => tracing::warn!(%pod, %uid, container, reason, "{message}"),
        }
    }
}
