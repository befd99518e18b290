//! When the slices of a driver are reconciled: at once after a change, but not more often than once a second, later after
//! failures. Pure.

use std::time::Duration;

use tokio::time::Instant;

use hostlet_base::{Backoff, BackoffPolicy};

use crate::api::pause;

/// Minimum time between two reconciliations of a driver that sends updates continuously.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Pauses after failures.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::MAX,
};

/// The pace of one driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// Since when something has changed that no reconciliation has seen.
    changed: Option<Instant>,
    started: Option<Instant>,
    backoff: Option<Backoff<Instant>>,
    /// Not before, after a failure.
    resumes: Option<Instant>,
}

impl Pace {
    /// Something changed.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed.get_or_insert(now);
    }

    /// When to reconcile; `None` if nothing changed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.changed.max(self.changed.and_then(|_| self.earliest()))
    }

    /// When to reconcile at the earliest, whatever changes; `None` if at once.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.started.map(|started| started + INTERVAL).max(self.resumes)
    }

    /// A reconciliation begins. Changes from now on are of the next one.
    pub(super) fn started(&mut self, now: Instant) {
        (self.changed, self.started) = (None, Some(now));
    }

    pub(super) fn succeeded(&mut self) {
        (self.backoff, self.resumes) = (None, None);
    }

    /// It failed, and is due again after a pause: the back-off, or longer if the server asks for it. `chance` is a random number
    /// from 0 to 1.
    pub(super) fn failed(&mut self, now: Instant, retry_after: Duration, chance: f64) {
        let backoff = Backoff::next(self.backoff, &BACKOFF, now, now);
        let pause = pause(backoff.delay, retry_after, chance);
        self.changed(now);
        (self.backoff, self.resumes) = (Some(backoff), Some(now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_are_conflated_and_failures_back_off() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        assert_eq!(pace.due(), None);
        pace.changed(start);
        assert_eq!(pace.due(), Some(start), "the first change is not delayed");
        pace.started(start);
        pace.succeeded();
        assert_eq!(pace.due(), None);
        (0..1000).for_each(|_| pace.changed(start));
        assert_eq!(pace.due(), Some(start + INTERVAL));
        let mut now = start + INTERVAL;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            pace.started(now);
            pace.failed(now, Duration::ZERO, 1.0);
            assert_eq!(pace.due(), Some(now + Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
        }
        pace.failed(now, Duration::from_secs(100), 0.0);
        assert_eq!(pace.due(), Some(now + Duration::from_secs(100)), "as the server asks");
        pace.started(now);
        pace.succeeded();
        pace.changed(now);
        assert_eq!(pace.due(), Some(now + INTERVAL));
        pace.started(now);
        pace.changed(now + INTERVAL * 5);
        assert_eq!(
            pace.due(),
            Some(now + INTERVAL * 5),
            "a change is due when it happened, not when somebody looks"
        );
    }
}
