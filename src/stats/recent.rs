//! A value that is computed when somebody asks, once for all who ask at about the same time.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The last value, or its computation.
pub(super) struct Recent<T: Clone> {
    /// How long a value is used again.
    age: Duration,
    last: Mutex<Option<(Instant, Shared<BoxFuture<'static, T>>)>>,
}

impl<T: Clone + Send + Sync + 'static> Recent<T> {
    /// None so far.
    pub(super) fn new(age: Duration) -> Self {
        Self { age, last: Mutex::new(None) }
    }

    /// The value, if one was requested recently.
    pub(super) fn current(&self) -> Option<Shared<BoxFuture<'static, T>>> {
        let last = self.last.lock();
        last.as_ref().filter(|(began, _)| began.elapsed() < self.age).map(|(_, value)| value.clone())
    }

    /// The value, which `work` computes unless one was requested recently that is `usable`. It is computed as long as somebody waits.
    pub(super) fn get(
        &self,
        usable: impl Fn(&T) -> bool,
        work: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> Shared<BoxFuture<'static, T>> {
        let mut last = self.last.lock();
        if let Some((began, value)) = &*last
            && began.elapsed() < self.age
            && value.peek().is_none_or(usable)
        {
            return value.clone();
        }
        let value = work().shared();
        *last = Some((Instant::now(), value.clone()));
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
        assert!(recent.current().is_some());
        advance(SECOND).await;
        assert!(recent.current().is_none());
        assert_eq!(ask().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_useless_value_is_not_used_again() {
        let recent = Recent::new(SECOND);
        let ask = |value: u32| recent.get(|value| *value != 13, move || Box::pin(async move { value }));
        assert_eq!(ask(13).await, 13);
        assert_eq!(ask(14).await, 14);
        assert_eq!(ask(15).await, 14);
    }
}
