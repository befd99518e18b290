//! The inbox of the owner of pod statuses. Conflated per pod: nothing is lost and no sender waits, however slow the reader.

use std::mem::discriminant;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::PodFacts;
use crate::pod::AdmittedPod;
use crate::types::{Conflated, PodUid};

/// A note about a pod.
#[derive(Debug)]
pub(super) enum Note {
    /// The pod as it is desired.
    Desired(Arc<AdmittedPod>),
    /// The pod changed in the runtime.
    Observed,
    /// Facts from its worker.
    Facts(Box<PodFacts>),
    /// Its lifecycle finished. The UID may be created again.
    Ended,
}

/// The unread notes of a pod.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// In order; of each lifecycle the latest note of each kind.
    pub(super) notes: Vec<Note>,
    /// Whether the status is due at once.
    pub(super) is_urgent: bool,
    /// Dropped when the status reflects all notes.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
}

impl Unread {
    fn add(&mut self, note: Note) {
        let this_life = self.notes.iter_mut().rev().take_while(|note| !matches!(note, Note::Ended));
        let mut older = this_life.filter(|older| discriminant(*older) == discriminant(&note));
        match older.next() {
            Some(older) => *older = note,
            None => self.notes.push(note),
        }
    }
}

/// Sends notes to the owner of statuses. Cheap to clone; clones share one inbox.
#[derive(Clone, Debug, Default)]
pub struct StatusHandle {
    inbox: Conflated<Unread>,
}

impl StatusHandle {
    /// The pod is desired like this.
    pub fn desired(&self, pod: &Arc<AdmittedPod>) {
        self.inbox.push(&pod.reference.uid, |unread| unread.add(Note::Desired(pod.clone())));
    }

    /// A pod changed in the runtime, or another input of its status did.
    pub fn observed(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| unread.add(Note::Observed));
    }

    /// Facts from a pod's worker.
    pub fn facts(&self, pod: &PodUid, facts: PodFacts) {
        self.inbox.push(pod, |unread| {
            unread.add(Note::Facts(Box::new(facts)));
            unread.is_urgent = true;
        });
    }

    /// The same, where the next relist will show more: the status may wait a moment for it.
    pub fn facts_soon_seen(&self, pod: &PodUid, facts: PodFacts) {
        self.inbox.push(pod, |unread| unread.add(Note::Facts(Box::new(facts))));
    }

    /// A pod's lifecycle finished: later notes on this UID belong to the next one.
    pub fn ended(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| unread.add(Note::Ended));
    }

    /// Waits until the status reflects the notes on a pod so far, and its containers' termination messages were read.
    /// Cancel-safe.
    pub async fn settled(&self, pod: &PodUid) {
        let (waiting, settled) = oneshot::channel();
        self.inbox.push(pod, |unread| unread.waiting.push(waiting));
        // It is dropped, never answered.
        let _ = settled.await;
    }

    /// The next pod with unread notes. Has one reader. Cancel-safe: they are taken only when they are returned.
    pub(super) async fn next(&self) -> (PodUid, Unread) {
        self.inbox.next().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing;

    fn kinds(unread: &Unread) -> Vec<&'static str> {
        let kind = |note: &Note| match note {
            Note::Desired(_) => "desired",
            Note::Observed => "observed",
            Note::Facts(_) => "facts",
            Note::Ended => "ended",
        };
        unread.notes.iter().map(kind).collect()
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
        let first = unread.notes.iter().find_map(|note| match note {
            Note::Facts(facts) => Some(facts.has_released),
            Note::Desired(_) | Note::Observed | Note::Ended => None,
        });
        assert_eq!(first, Some(false));
    }
}
