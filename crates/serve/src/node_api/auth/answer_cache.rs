//! Answers of the API server, each cached for a time. Requests for the same answer wait for one question, and share a failure, too.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::ReviewError;

/// Maximum number of cached answers. A node's clients are a few; tokens that nobody knows must not fill the memory, nor push out the
/// answers about the clients.
const MOST: usize = 1_024;

/// The latest outcome of a question.
#[derive(Debug)]
enum Outcome<V> {
    /// Not asked yet.
    None,
    /// An answer, and until when it is cached.
    Answer(V, Instant),
    /// A failure, only for those who waited for it.
    Failure(Arc<ReviewError>),
}

/// A question, locked while it is asked.
#[derive(Debug)]
struct Slot<V> {
    /// How many slots were made before.
    number: u64,
    /// How often it had an outcome.
    outcomes: AtomicU64,
    latest: AsyncMutex<Outcome<V>>,
}

/// What is lost if a slot is removed, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// No valid answer.
    Nothing,
    /// An answer that says no, as strangers cause as many as they like.
    Negative,
    /// An answer about a client of the node.
    Positive,
    /// It is being asked, and others wait for it.
    Asked,
}

impl<V> Slot<V> {
    fn new(number: u64) -> Self {
        Self { number, outcomes: AtomicU64::default(), latest: AsyncMutex::new(Outcome::None) }
    }

    fn worth(slot: &Arc<Self>, is_positive: fn(&V) -> bool, now: Instant) -> Worth {
        // Also for somebody who has not come to lock it yet.
        if Arc::strong_count(slot) > 1 {
            return Worth::Asked;
        }
        match slot.latest.try_lock().as_deref() {
            Err(_) => Worth::Asked,
            Ok(Outcome::Answer(answer, until)) if now < *until => {
                if is_positive(answer) {
                    Worth::Positive
                } else {
                    Worth::Negative
                }
            }
            Ok(Outcome::None | Outcome::Answer(..) | Outcome::Failure(_)) => Worth::Nothing,
        }
    }
}

/// Answers by question.
#[derive(Debug)]
pub(super) struct AnswerCache<K, V> {
    slots: Mutex<Slots<K, V>>,
    is_positive: fn(&V) -> bool,
}

#[derive(Debug)]
struct Slots<K, V> {
    by_question: HashMap<K, Arc<Slot<V>>>,
    next: u64,
}

impl<K: Clone + Eq + Hash, V: Clone> AnswerCache<K, V> {
    /// Of too many answers, the oldest ones that are not positive are forgotten first.
    pub(super) fn new(is_positive: fn(&V) -> bool) -> Self {
        Self { slots: Mutex::new(Slots { by_question: HashMap::new(), next: 0 }), is_positive }
    }

    /// The cached answer, or the one of `ask`, which also says how long it is cached. A failure is the result of all who wait for it, so
    /// that they do not ask one after the other while the API server is away. Cancel-safe: another request then asks.
    pub(super) async fn get(
        &self,
        question: K,
        ask: impl Future<Output = Result<(V, Duration), ReviewError>>,
    ) -> Result<V, Arc<ReviewError>> {
        let slot = self.slot(question);
        let seen = slot.outcomes.load(Ordering::Acquire);
        let mut latest = slot.latest.lock().await;
        match &*latest {
            Outcome::Answer(answer, until) if Instant::now() < *until => return Ok(answer.clone()),
            Outcome::Failure(error) if slot.outcomes.load(Ordering::Acquire) != seen => {
                return Err(error.clone());
            }
            Outcome::None | Outcome::Answer(..) | Outcome::Failure(_) => {}
        }
        let result = ask.await.map_err(Arc::new);
        slot.outcomes.fetch_add(1, Ordering::Release);
        *latest = match &result {
            Ok((answer, duration)) => Outcome::Answer(answer.clone(), Instant::now() + *duration),
            Err(error) => Outcome::Failure(error.clone()),
        };
        result.map(|(answer, _)| answer)
    }

    fn slot(&self, question: K) -> Arc<Slot<V>> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.by_question.get(&question) {
            return slot.clone();
        }
        let slot = Arc::new(Slot::new(slots.next));
        slots.next += 1;
        if slots.by_question.len() >= MOST && !self.make_room(&mut slots) {
            // Asked without sharing the answer.
            return slot;
        }
        slots.by_question.insert(question, slot.clone());
        slot
    }

    /// Removes what is worth least. Returns whether there is room now.
    fn make_room(&self, slots: &mut Slots<K, V>) -> bool {
        let now = Instant::now();
        slots.by_question.retain(|_, slot| Slot::worth(slot, self.is_positive, now) > Worth::Nothing);
        if slots.by_question.len() < MOST {
            return true;
        }
        let ranked = slots
            .by_question
            .iter()
            .map(|(question, slot)| (Slot::worth(slot, self.is_positive, now), slot.number, question));
        let least = ranked.min_by_key(|(worth, number, _)| (*worth, *number));
        match least.filter(|(worth, ..)| *worth < Worth::Asked).map(|(_, _, question)| question.clone()) {
            Some(question) => slots.by_question.remove(&question).is_some(),
            None => false,
        }
    }
}

#[cfg(test)]
#[path = "answer_cache_tests.rs"]
mod tests;
