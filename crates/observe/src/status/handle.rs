//! The inbox of the status task. Conflated per pod: no change is lost and no sender waits, however slow the task.

use std::mem::discriminant;
use std::sync::Arc;

use hostlet_base::{Conflated, PodUid};
use hostlet_pod::AdmittedPod;
use tokio::sync::oneshot;

use super::PodFacts;

/// A change of an input of a pod's status.
#[derive(Debug)]
pub(super) enum StatusUpdate {
    Desired(Arc<AdmittedPod>),
    /// The pod changed in the runtime.
    Observed,
    /// Facts from its worker.
    Facts(Box<PodFacts>),
    /// Its lifecycle finished. The UID may be created again.
    Ended,
}

/// The unread updates of a pod.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// In order; of each lifecycle the latest update of each kind.
    pub(super) updates: Vec<StatusUpdate>,
    /// Whether the status is due at once.
    pub(super) is_urgent: bool,
    /// Dropped when the status reflects all updates.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
}

impl Unread {
    fn add(&mut self, update: StatusUpdate) {
        let this_lifecycle =
            self.updates.iter_mut().rev().take_while(|update| !matches!(update, StatusUpdate::Ended));
        let mut older = this_lifecycle.filter(|older| discriminant(*older) == discriminant(&update));
        match older.next() {
            Some(older) => *older = update,
            None => self.updates.push(update),
        }
    }
}

/// Sends updates to the status task. Cheap to clone; clones share one inbox.
#[derive(Clone, Debug, Default)]
pub struct StatusHandle {
    inbox: Conflated<Unread>,
}

impl StatusHandle {
    /// Reports the desired pod.
    pub fn desired(&self, pod: &Arc<AdmittedPod>) {
        self.inbox.push(&pod.reference.uid, |unread| unread.add(StatusUpdate::Desired(pod.clone())));
    }

    /// Reports that a pod changed in the runtime, or that another input of its status changed.
    pub fn observed(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| unread.add(StatusUpdate::Observed));
    }

    /// Reports that an input of a pod's status changed. Its status is recomputed at once.
    pub fn urgent(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| {
            unread.add(StatusUpdate::Observed);
            unread.is_urgent = true;
        });
    }

    /// Reports facts from a pod's worker. Its status is recomputed at once.
    pub fn facts(&self, pod: &PodUid, facts: PodFacts) {
        self.inbox.push(pod, |unread| {
            unread.add(StatusUpdate::Facts(Box::new(facts)));
            unread.is_urgent = true;
        });
    }

    /// Reports facts of which the next relist will show more: the status may wait a moment for it.
    pub fn facts_soon_seen(&self, pod: &PodUid, facts: PodFacts) {
        self.inbox.push(pod, |unread| unread.add(StatusUpdate::Facts(Box::new(facts))));
    }

    /// Reports that a pod's lifecycle finished: later updates on this UID belong to the next one.
    pub fn ended(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| unread.add(StatusUpdate::Ended));
    }

    /// Waits until the status reflects the updates on a pod so far, and its containers' termination messages were read.
    /// Cancel-safe.
    pub async fn settled(&self, pod: &PodUid) {
        let (waiting, settled) = oneshot::channel();
        self.inbox.push(pod, |unread| unread.waiting.push(waiting));
        // The sender is dropped; it never sends.
        let _ = settled.await;
    }

    /// The next pod with unread updates. Has one reader. Cancel-safe: they are taken only when they are returned.
    pub(super) async fn next(&self) -> (PodUid, Unread) {
        self.inbox.next().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_pod::testing;

    fn kinds(unread: &Unread) -> Vec<&'static str> {
        let kind = |update: &StatusUpdate| match update {
            StatusUpdate::Desired(_) => "desired",
            StatusUpdate::Observed => "observed",
            StatusUpdate::Facts(_) => "facts",
            StatusUpdate::Ended => "ended",
        };
        unread.updates.iter().map(kind).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_conflated_within_a_life_and_lives_are_kept_apart() {
        let handle = StatusHandle::default();
        let pod = AdmittedPod::new(testing::pod("p", "u", "Always", &["c"]));
        let uid = pod.reference.uid.clone();
        for released in [false, true] {
            for _ in 0..100 {
                handle.desired(&pod);
                handle.observed(&uid);
                handle.facts(&uid, PodFacts { has_released: released, ..PodFacts::default() });
            }
            handle.ended(&uid);
        }
        let (_, unread) = handle.next().await;
        let life = ["desired", "observed", "facts", "ended"];
        assert_eq!(kinds(&unread), [life, life].concat());
        let first = unread.updates.iter().find_map(|update| match update {
            StatusUpdate::Facts(facts) => Some(facts.has_released),
            StatusUpdate::Desired(_) | StatusUpdate::Observed | StatusUpdate::Ended => None,
        });
        assert_eq!(first, Some(false));
    }
}
