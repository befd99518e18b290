//! Answers of the API server, each kept for a time. Requests for the same answer wait for one question, and share a failure, too.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::ReviewError;

/// Maximum number of kept answers. A node's clients are a few; tokens that nobody knows must not fill the memory.
const MOST: usize = 1_024;

/// The latest outcome of a question.
#[derive(Debug)]
enum Outcome<V> {
    /// Not asked yet.
    None,
    /// An answer, and until when it is kept.
    Answer(V, Instant),
    /// A failure, only for those who waited for it.
    Failure(Arc<ReviewError>),
}

/// A question, locked while it is asked.
#[derive(Debug)]
struct Slot<V> {
    /// How often it had an outcome.
    outcomes: AtomicU64,
    latest: AsyncMutex<Outcome<V>>,
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Self { outcomes: AtomicU64::default(), latest: AsyncMutex::new(Outcome::None) }
    }
}

impl<V> Slot<V> {
    /// Whether it has to stay: its answer is valid, or it is being asked.
    fn is_needed(&self, now: Instant) -> bool {
        self.latest
            .try_lock()
            .map_or(true, |latest| matches!(&*latest, Outcome::Answer(_, until) if now < *until))
    }
}

/// Answers by question.
#[derive(Debug)]
pub(super) struct Kept<K, V> {
    slots: Mutex<HashMap<K, Arc<Slot<V>>>>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Kept<K, V> {
    /// The kept answer, or the one of `ask`, which also says how long it is kept. A failure is the result of all who wait for it, so that
    /// they do not ask one after the other while the API server is away. Cancel-safe: another request then asks.
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
        if slots.len() >= MOST && !slots.contains_key(&question) {
            let now = Instant::now();
            slots.retain(|_, slot| slot.is_needed(now));
            if slots.len() >= MOST {
                slots.clear();
            }
        }
        slots.entry(question).or_default().clone()
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
        let (kept, asked) = (Kept::default(), AtomicUsize::new(0));
        let get = || {
            kept.get("question", async {
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
        let (kept, asked) = (Kept::<_, ()>::default(), AtomicUsize::new(0));
        let get = || {
            kept.get("question", async {
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
        let kept = Kept::default();
        let slow = kept.get("question", async {
            sleep(TTL).await;
            unavailable()
        });
        let patient = async {
            sleep(Duration::from_secs(1)).await;
            kept.get("question", async { Ok(("answer", TTL)) }).await
        };
        let (left, answer) = tokio::join!(tokio::time::timeout(Duration::from_secs(2), slow), patient);
        assert!(left.is_err());
        assert_eq!(answer.unwrap(), "answer");
    }

    #[tokio::test(start_paused = true)]
    async fn questions_are_bounded() {
        let kept = Kept::default();
        for question in 0..2 * MOST {
            kept.get(question, async { Ok(((), TTL)) }).await.unwrap();
            assert!(kept.slots.lock().len() <= MOST);
        }
    }
}
