//! How long nothing has passed through a session.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The time of the last byte of a session, and how long it may be ago.
pub(super) struct Activity {
    last: Mutex<Instant>,
    limit: Duration,
}

impl Activity {
    /// Begins now.
    pub(super) fn new(limit: Duration) -> Self {
        Self { last: Mutex::new(Instant::now()), limit }
    }

    /// Something has passed that is not only a sign of life.
    pub(super) fn note(&self) {
        *self.last.lock() = Instant::now();
    }

    /// Waits until nothing has passed for the limit. Cancel-safe.
    pub(super) async fn idle(&self) {
        loop {
            let end = *self.last.lock() + self.limit;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_counts_from_the_last_byte() {
        let (began, activity) = (Instant::now(), Activity::new(Duration::from_secs(60)));
        let passes = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                activity.note();
            }
        };
        tokio::join!(activity.idle(), passes);
        assert_eq!(began.elapsed(), Duration::from_secs(210));
    }
}
