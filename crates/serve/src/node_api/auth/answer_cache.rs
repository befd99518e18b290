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
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn unavailable<V>() -> Result<(V, Duration), ReviewError> {
        Err(ReviewError::Failed("unavailable".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_for_once_until_it_expires() {
        let (cache, asked) = (AnswerCache::new(|_| true), AtomicUsize::new(0));
        let get = || {
            cache.get("question", async {
                sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(("answer", TTL))
            })
        };
        for result in join_all([get(), get(), get()]).await {
            assert_eq!(result.unwrap(), "answer");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(TTL).await;
        get().await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_of_all_who_wait_for_it_and_of_nobody_else() {
        let (cache, asked) = (AnswerCache::<_, ()>::new(|()| true), AtomicUsize::new(0));
        let get = || {
            cache.get("question", async {
                asked.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
                unavailable()
            })
        };
        for result in join_all([get(), get(), get()]).await {
            assert_eq!(
                result.unwrap_err().to_string(),
                ReviewError::Failed("unavailable".to_owned()).to_string()
            );
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        get().await.unwrap_err();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_while_asking_leaves_the_question_to_the_next() {
        let cache = AnswerCache::new(|_| true);
        let slow = cache.get("question", async {
            sleep(TTL).await;
            unavailable()
        });
        let patient = async {
            sleep(Duration::from_secs(1)).await;
            cache.get("question", async { Ok(("answer", TTL)) }).await
        };
        let (left, answer) = tokio::join!(tokio::time::timeout(Duration::from_secs(2), slow), patient);
        assert!(left.is_err());
        assert_eq!(answer.unwrap(), "answer");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_bounded_and_negative_ones_push_out_no_positive_one() {
        let (cache, asked) = (AnswerCache::new(|answer| *answer), AtomicUsize::new(0));
        let get = |question: usize, answer| {
            let asked = &asked;
            cache.get(question, async move {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok((answer, TTL))
            })
        };
        get(0, true).await.unwrap();
        for question in 1..3 * MOST {
            get(question, false).await.unwrap();
            assert!(cache.slots.lock().by_question.len() <= MOST);
        }
        assert_eq!(asked.swap(0, Ordering::Relaxed), 3 * MOST);
        // The client's answer, and the latest others.
        for (question, answer) in [(0, true), (3 * MOST - 1, false), (2 * MOST + 2, false)] {
            assert_eq!(get(question, answer).await.unwrap(), answer, "{question}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        get(1, false).await.unwrap();
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1, "the oldest was forgotten");
        for question in 3 * MOST..5 * MOST {
            get(question, true).await.unwrap();
        }
        assert!(cache.slots.lock().by_question.len() <= MOST, "also of positive ones");
    }

    #[tokio::test(start_paused = true)]
    async fn questions_in_progress_are_not_forgotten() {
        let (cache, asked) = (AnswerCache::new(|_| true), AtomicUsize::new(0));
        let get = |question: usize| {
            let (cache, asked) = (&cache, &asked);
            async move {
                let ask = async {
                    asked.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_secs(1)).await;
                    Ok((true, TTL))
                };
                cache.get(question, ask).await.unwrap()
            }
        };
        let all = (0..2 * MOST).map(&get);
        let again = (0..MOST).map(&get);
        join_all(all.chain(again)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2 * MOST);
    }
}
