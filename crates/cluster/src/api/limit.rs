//! The limit on a client's requests: a burst, then a rate, with one queue for urgent requests and one for the others. Knows nothing of
//! what is requested.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostlet_base::TokenBucket;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// How important a request is to others than this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// Before all others that wait: that a pod has terminated, which frees resources and lets controllers go on.
    Urgent,
    /// In order.
    Normal,
}

/// A limit on requests. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct RequestLimit(Arc<Queues>);

#[derive(Debug)]
struct Queues {
    bucket: Mutex<TokenBucket>,
    /// Held by the first of those that wait, in order of arrival.
    normal: tokio::sync::Mutex<()>,
    urgent: tokio::sync::Mutex<()>,
    urgent_waiting: AtomicUsize,
    refill: Duration,
}

impl RequestLimit {
    /// A limit to `rate` requests a second after a burst, as client-go's.
    pub(super) fn new(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        let refill = Duration::from_secs(1) / rate.get();
        Self(Arc::new(Queues {
            bucket: Mutex::new(TokenBucket::new(burst.get(), refill, Instant::now())),
            normal: tokio::sync::Mutex::default(),
            urgent: tokio::sync::Mutex::default(),
            urgent_waiting: AtomicUsize::new(0),
            refill,
        }))
    }

    /// Waits until a request may be sent. Cancel-safe: what is dropped leaves its queue.
    pub(super) async fn wait(&self, priority: Priority) {
        let queues = &*self.0;
        match priority {
            Priority::Urgent => {
                let _waiting = Waiting::new(&queues.urgent_waiting);
                let _first = queues.urgent.lock().await;
                queues.token(|| true).await;
            }
            Priority::Normal => {
                let _first = queues.normal.lock().await;
                queues.token(|| queues.urgent_waiting.load(Ordering::Relaxed) == 0).await;
            }
        }
    }
}

impl Queues {
    /// Takes a token as soon as there is one and `may_take` holds.
    async fn token(&self, may_take: impl Fn() -> bool) {
        loop {
            let pause = match may_take() {
                true => match self.bucket.lock().take_or_wait(Instant::now()) {
                    Ok(()) => return,
                    Err(pause) => pause,
                },
                // The next token is for an urgent request.
                false => self.refill,
            };
            sleep(pause).await;
        }
    }
}

/// Counts somebody who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use proptest::prelude::*;

    use super::*;

    fn limit(rate: u32, burst: u32) -> RequestLimit {
        RequestLimit::new(NonZeroU32::new(rate).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    /// When each of these requests, which all come at once, is sent, in milliseconds.
    async fn sent(limit: &RequestLimit, priorities: &[Priority]) -> Vec<u128> {
        let start = Instant::now();
        join_all(priorities.iter().map(async |priority| {
            limit.wait(*priority).await;
            start.elapsed().as_millis()
        }))
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_sent_at_once_and_the_others_in_order() {
        let limit = limit(10, 3);
        let times = sent(&limit, &[Priority::Normal; 6]).await;
        assert_eq!(times[..3], [0, 0, 0]);
        assert!(times[3..].is_sorted() && times[3] >= 99 && times[5] >= 299, "{times:?}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(sent(&limit, &[Priority::Normal; 3]).await, [0, 0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_request_passes_all_that_wait() {
        let limit = limit(1, 1);
        let mut requests = vec![Priority::Normal; 50];
        requests.extend([Priority::Urgent; 3]);
        let times = sent(&limit, &requests).await;
        assert_eq!(times[0], 0);
        let last_urgent = times[50..].iter().max().unwrap();
        assert!(*last_urgent < 5_000, "{times:?}");
        assert!(times[1..50].iter().all(|at| at > last_urgent), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_request_neither_blocks_others_nor_uses_a_token() {
        let limit = limit(1, 1);
        limit.wait(Priority::Normal).await;
        for priority in [Priority::Urgent, Priority::Normal] {
            let waited = tokio::time::timeout(Duration::from_millis(10), limit.wait(priority)).await;
            assert!(waited.is_err());
        }
        let times = sent(&limit, &[Priority::Normal]).await;
        assert!(times[0] <= 1_000, "{times:?}");
    }

    proptest! {
        /// In any time span no more requests are sent than burst and rate permit, and all are sent.
        #[test]
        fn the_rate_holds(rate in 1u32..50, burst in 1u32..20, arrivals in proptest::collection::vec((0u64..2_000, any::<bool>()), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let times = runtime.block_on(async {
                let (limit, start) = (limit(rate, burst), Instant::now());
                let all = arrivals.iter().map(async |(at, is_urgent)| {
                    sleep(Duration::from_millis(*at)).await;
                    limit.wait(if *is_urgent { Priority::Urgent } else { Priority::Normal }).await;
                    start.elapsed().as_secs_f64()
                });
                let mut times = join_all(all).await;
                times.sort_by(f64::total_cmp);
                times
            });
            for (first, begin) in times.iter().enumerate() {
                for (last, end) in times.iter().enumerate().skip(first) {
                    let allowed = f64::from(burst) + f64::from(rate) * (end - begin);
                    prop_assert!((last - first + 1) as f64 <= allowed + 1e-3, "{times:?}");
                }
            }
        }
    }
}
