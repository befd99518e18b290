//! Where everybody leaves what bears on the statuses of pods. Conflated per pod: however slow the reader, nothing is lost
//! and nobody waits.

use std::mem::discriminant;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::PodFacts;
use crate::pod::AdmittedPod;
use crate::types::{Conflated, PodUid};

/// What was left of a pod.
#[derive(Debug)]
pub(super) enum Note {
    /// This is wanted.
    Desired(Arc<AdmittedPod>),
    /// The runtime has something else of it than before.
    Observed,
    /// Its worker knows this.
    Facts(Box<PodFacts>),
    /// Its life has come to its end. The UID may be wanted anew.
    Ended,
}

/// What was left of a pod and not read yet.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// In order, of each life the latest of each kind.
    pub(super) notes: Vec<Note>,
    /// Whether it is new enough to be reported at once.
    pub(super) is_urgent: bool,
    /// Dropped when the status takes all of it into account.
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

/// Where what bears on statuses is left. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct StatusHandle {
    inbox: Conflated<Unread>,
}

impl StatusHandle {
    /// A pod is wanted like this.
    pub fn desired(&self, pod: &Arc<AdmittedPod>) {
        self.inbox.push(&pod.reference.uid, |unread| unread.add(Note::Desired(pod.clone())));
    }

    /// What the runtime has of a pod changed, or something else that statuses are made from.
    pub fn observed(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| unread.add(Note::Observed));
    }

    /// A pod's worker knows these facts.
    pub fn facts(&self, pod: &PodUid, facts: PodFacts) {
        self.inbox.push(pod, |unread| {
            unread.add(Note::Facts(Box::new(facts)));
            unread.is_urgent = true;
        });
    }

    /// The same, where the next look at the runtime will show more: it may be awaited for a moment.
    pub fn facts_soon_seen(&self, pod: &PodUid, facts: PodFacts) {
        self.inbox.push(pod, |unread| unread.add(Note::Facts(Box::new(facts))));
    }

    /// A pod's life has come to its end: what is left of this UID from here on is of another one.
    pub fn ended(&self, pod: &PodUid) {
        self.inbox.push(pod, |unread| unread.add(Note::Ended));
    }

    /// Waits until the status takes into account what was left of a pod so far, and what its ended containers wrote was read.
    /// Cancel-safe.
    pub async fn settled(&self, pod: &PodUid) {
        let (waiting, settled) = oneshot::channel();
        self.inbox.push(pod, |unread| unread.waiting.push(waiting));
        // It is dropped, never answered.
        let _ = settled.await;
    }

    /// The next pod that something was left of. Has one reader. Cancel-safe: it is taken only when it is returned.
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
