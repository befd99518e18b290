//! The limit of the rate of calls, which is one for all services of the socket.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::TokenBucket;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::Status;

/// Upstream's burst, and a hundred calls a second after it.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_millis(10);

/// The limit. Clones share it.
#[derive(Clone)]
pub(crate) struct RateLimit(Arc<Mutex<TokenBucket>>);

impl RateLimit {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(TokenBucket::new(BURST, REFILL, now))))
    }

    /// Allows a call, or rejects it in upstream's words.
    pub(crate) fn check(&self) -> Result<(), Status> {
        match self.0.lock().try_take(Instant::now()) {
            true => Ok(()),
            false => Err(Status::resource_exhausted("rejected by rate limit")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_a_hundred_calls_a_second_after_it() {
        let limit = RateLimit::new(Instant::now());
        let pass = |count: usize| (0..count).filter(|_| limit.check().is_ok()).count();
        assert_eq!(pass(20), 10);
        let rejected = limit.clone().check().unwrap_err();
        assert_eq!(rejected.message(), "rejected by rate limit");
        tokio::time::advance(Duration::from_millis(30)).await;
        assert_eq!(pass(20), 3);
    }
}
