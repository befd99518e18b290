//! Answers of the API server, each kept for a time. Requests for the same answer wait for one question.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// Maximum number of kept answers. A node's clients are a few; tokens that nobody knows must not fill the memory.
const MOST: usize = 1_024;

type Slot<V> = Arc<AsyncMutex<Option<(V, Instant)>>>;

/// Answers by question.
#[derive(Debug)]
pub(super) struct Kept<K, V> {
    slots: Mutex<HashMap<K, Slot<V>>>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Kept<K, V> {
    /// The kept answer, or the one of `ask`, which also says how long it is kept. Errors are not kept. Cancel-safe: another request then
    /// asks.
    pub(super) async fn get<E>(
        &self,
        question: K,
        ask: impl Future<Output = Result<(V, Duration), E>>,
    ) -> Result<V, E> {
        let slot = self.slot(question);
        let mut slot = slot.lock().await;
        if let Some((answer, _)) = slot.as_ref().filter(|(_, until)| Instant::now() < *until) {
            return Ok(answer.clone());
        }
        let (answer, duration) = ask.await?;
        *slot = Some((answer.clone(), Instant::now() + duration));
        Ok(answer)
    }

    fn slot(&self, question: K) -> Slot<V> {
        let mut slots = self.slots.lock();
        if slots.len() >= MOST && !slots.contains_key(&question) {
            let now = Instant::now();
            // One that is in use is being asked for.
            let is_valid = |slot: &Slot<V>| {
                slot.try_lock().map_or(true, |slot| slot.as_ref().is_some_and(|(_, until)| now < *until))
            };
            slots.retain(|_, slot| is_valid(slot));
            if slots.len() >= MOST {
                slots.clear();
            }
        }
        slots.entry(question).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_for_once_until_it_expires() {
        let (kept, asked) = (Kept::default(), AtomicUsize::new(0));
        let get = || {
            kept.get("question", async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(("answer", TTL))
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
    async fn errors_are_not_kept_and_questions_are_bounded() {
        let kept = Kept::default();
        let failed = kept.get(0, async { Err::<((), _), _>("unavailable") }).await;
        assert_eq!(failed, Err("unavailable"));
        for question in 0..2 * MOST {
            kept.get(question, async { Ok::<_, Infallible>(((), TTL)) }).await.unwrap();
            assert!(kept.slots.lock().len() <= MOST);
        }
    }
}
