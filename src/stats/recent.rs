//! A value that is computed when somebody asks, once for all who ask at about the same time.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A value that is computed as long as somebody waits for it.
type Value<T> = Shared<BoxFuture<'static, T>>;

/// The last value, or its computation.
pub(super) struct Recent<T: Clone> {
    /// How long a value is used again.
    age: Duration,
    last: Mutex<Option<Last<T>>>,
}

struct Last<T: Clone> {
    began: Instant,
    value: Value<T>,
}

impl<T: Clone> Last<T> {
    /// The value, if it may be used again, or if it is being computed. A computation that nobody waits for makes no progress, and its
    /// result would be as old as its beginning.
    fn current(&self, age: Duration, usable: impl Fn(&T) -> bool) -> Option<Value<T>> {
        let is_recent = self.began.elapsed() < age;
        let is_current = match self.value.peek() {
            Some(value) => is_recent && usable(value),
            // One reference is this one.
            None => is_recent || self.value.strong_count().is_some_and(|count| count > 1),
        };
        is_current.then(|| self.value.clone())
    }
}

impl<T: Clone + Send + Sync + 'static> Recent<T> {
    /// None so far.
    pub(super) fn new(age: Duration) -> Self {
        Self { age, last: Mutex::new(None) }
    }

    /// The value, if one that is `usable` was requested recently, or if somebody waits for one.
    pub(super) fn current(&self, usable: impl Fn(&T) -> bool) -> Option<Value<T>> {
        self.last.lock().as_ref()?.current(self.age, usable)
    }

    /// The [current](Self::current) value, or one that `work` computes.
    pub(super) fn get(
        &self,
        usable: impl Fn(&T) -> bool,
        work: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> Value<T> {
        let mut last = self.last.lock();
        if let Some(value) = last.as_ref().and_then(|last| last.current(self.age, usable)) {
            return value;
        }
        let value = work().shared();
        *last = Some(Last { began: Instant::now(), value: value.clone() });
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_at_once_share_one_computation_also_if_the_first_leaves() {
        let (recent, computed) = (Recent::new(SECOND), Arc::new(AtomicU32::new(0)));
        let ask = || {
            let computed = computed.clone();
            recent.get(
                |value| *value != 13,
                move || {
                    Box::pin(async move {
                        let number = computed.fetch_add(1, Ordering::Relaxed);
                        sleep(SECOND / 2).await;
                        number
                    })
                },
            )
        };
        let leaves = tokio::time::timeout(SECOND / 4, ask()).await;
        assert!(leaves.is_err());
        let (one, other) = (ask(), ask());
        assert_eq!((one.await, other.await), (0, 0));
        assert_eq!(ask().await, 0, "it is still recent");
        assert!(recent.current(|_| true).is_some());
        advance(SECOND).await;
        assert!(recent.current(|_| true).is_none());
        assert_eq!(ask().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_useless_value_is_not_used_again() {
        let recent = Recent::new(SECOND);
        let ask = |value: u32| recent.get(|value| *value != 13, move || Box::pin(async move { value }));
        assert_eq!(ask(13).await, 13);
        assert!(recent.current(|value| *value != 13).is_none());
        assert_eq!(ask(14).await, 14);
        assert_eq!(ask(15).await, 14);
    }

    #[tokio::test(start_paused = true)]
    async fn a_computation_that_takes_long_is_shared_while_somebody_waits_and_then_made_anew() {
        let (recent, computed) = (Recent::new(SECOND), Arc::new(AtomicU32::new(0)));
        let ask = || {
            let number = computed.clone();
            let work = async move {
                let number = number.fetch_add(1, Ordering::Relaxed);
                sleep(SECOND * 5).await;
                number
            };
            recent.get(|_| true, move || Box::pin(work))
        };
        let later = async {
            sleep(SECOND * 3).await;
            assert!(recent.current(|_| true).is_some());
            ask().await
        };
        assert_eq!(tokio::join!(ask(), later), (0, 0));
        // Its result is too old for others, and so is that of one whose only waiter left.
        assert!(tokio::time::timeout(SECOND * 2, ask()).await.is_err());
        assert_eq!(ask().await, 2);
    }
}
