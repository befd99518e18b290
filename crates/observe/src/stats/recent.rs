//! A measurement that is made when somebody asks, once for all who ask at about the same time. Only the last one is in memory.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::usage::Detail;

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
    /// What it has at least.
    detail: Detail,
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

    /// The value, if one of this detail that is `usable` was requested recently, or if somebody waits for one. Otherwise one that
    /// `work` computes.
    pub(super) fn get(
        &self,
        detail: Detail,
        usable: impl Fn(&T) -> bool,
        work: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> Value<T> {
        let mut last = self.last.lock();
        // What has more has this.
        let enough = last.as_ref().filter(|last| last.detail >= detail);
        if let Some(value) = enough.and_then(|last| last.current(self.age, usable)) {
            return value;
        }
        let value = work().shared();
        *last = Some(Last { began: Instant::now(), detail, value: value.clone() });
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
                Detail::All,
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
        advance(SECOND).await;
        assert_eq!(ask().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_useless_value_is_not_used_again() {
        let recent = Recent::new(SECOND);
        let ask = |value: u32| {
            recent.get(Detail::All, |value| *value != 13, move || Box::pin(async move { value }))
        };
        assert_eq!(ask(13).await, 13);
        assert_eq!(ask(14).await, 14);
        assert_eq!(ask(15).await, 14);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_serves_all_who_need_no_more_also_while_it_is_computed() {
        use Detail::{All, CpuAndMemory, Summary};
        let recent = Recent::new(SECOND);
        let ask = |detail: Detail| {
            let work = async move {
                sleep(SECOND / 4).await;
                detail
            };
            recent.get(detail, |_| true, move || Box::pin(work))
        };
        let (first, less, more) = (ask(Summary), ask(CpuAndMemory), ask(All));
        assert_eq!((first.await, less.await, more.await), (Summary, Summary, All));
        assert_eq!((ask(Summary).await, ask(CpuAndMemory).await), (All, All));
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
            recent.get(Detail::All, |_| true, move || Box::pin(work))
        };
        let later = async {
            sleep(SECOND * 3).await;
            ask().await
        };
        assert_eq!(tokio::join!(ask(), later), (0, 0));
        // Its result is too old for others, and so is the result of one whose only waiter left.
        assert!(tokio::time::timeout(SECOND * 2, ask()).await.is_err());
        assert_eq!(ask().await, 2);
    }
}
