//! When the status is computed, and when it is sent though nothing changed. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How often readiness is looked at: what makes a node unready is often that nothing happens any more.
const LOOK: Duration = Duration::from_secs(1);

/// The same until the node is ready for the first time; upstream's constant.
const LOOK_AT_START: Duration = Duration::from_millis(100);

/// The pause between computations is longer by up to this part of it, so that nodes do not keep step; upstream's constant.
const JITTER: f64 = 0.04;

/// The pace of one node's status. `random` is from 0 up to 1.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    update: Duration,
    report: Duration,
    /// When the status is computed next, whatever happens.
    next: Instant,
    /// When it is sent next, whatever it is.
    report_at: Instant,
    /// The readiness the API server knows; none if that is not known.
    told: Option<bool>,
    /// Whether the node has been ready since the daemon started.
    was_ready: bool,
    /// Rounds that failed since the last that did not.
    failures: u32,
    /// Until when a failed round is not repeated.
    hold: Instant,
}

impl Pace {
    /// The pace of a node whose status was not told yet.
    pub(super) fn new(update: Duration, report: Duration, now: Instant) -> Self {
        Self {
            update,
            report,
            next: now,
            report_at: now,
            told: None,
            was_ready: false,
            failures: 0,
            hold: now,
        }
    }

    /// When to look again, unless something happens before.
    pub(super) fn look_at(&self, now: Instant) -> Instant {
        let look = if self.was_ready { LOOK } else { LOOK_AT_START };
        self.next.min(now + look)
    }

    /// Whether to compute the status now, when the node is ready or not.
    pub(super) fn is_due(&self, now: Instant, ready: bool) -> bool {
        now >= self.hold && (now >= self.next || self.told != Some(ready))
    }

    /// Whether the status is to be sent though nothing changed.
    pub(super) fn must_report(&self, now: Instant) -> bool {
        now >= self.report_at
    }

    /// The status was sent. After a change the next report is due at a random time around the frequency, lest what changed
    /// many nodes at once makes them report at once ever after.
    pub(super) fn sent(&mut self, now: Instant, changed: bool, random: f64) {
        let factor = if changed { 0.5 + random } else { 1.0 };
        self.report_at = now + self.report.mul_f64(factor);
    }

    /// A round is over, and the API server knows this readiness.
    pub(super) fn done(&mut self, now: Instant, ready: bool, random: f64) {
        self.told = Some(ready);
        self.was_ready |= ready;
        self.failures = 0;
        self.hold = now;
        self.next = now + self.update.mul_f64(1.0 + JITTER * random);
    }

    /// A round failed. Readiness that could not be told is tried again soon, and then less soon.
    pub(super) fn failed(&mut self, now: Instant, random: f64) {
        let pause = LOOK.saturating_mul(1 << self.failures.min(16)).min(self.update);
        self.failures = self.failures.saturating_add(1);
        self.hold = now + pause;
        self.next = now + self.update.mul_f64(1.0 + JITTER * random);
    }

    /// What the API server knows is not known any more: the Node is another one.
    pub(super) fn forget(&mut self) {
        self.told = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATE: Duration = Duration::from_secs(10);
    const REPORT: Duration = Duration::from_secs(300);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_is_computed_at_its_time_and_when_readiness_changes() {
        let now = Instant::now();
        let mut pace = Pace::new(UPDATE, REPORT, now);
        assert!(pace.is_due(now, false) && pace.must_report(now));
        assert_eq!(pace.look_at(now + secs(1)), now);
        pace.sent(now, true, 0.0);
        pace.done(now, false, 0.5);
        assert_eq!(pace.look_at(now), now + LOOK_AT_START);
        assert!(!pace.is_due(now + secs(10), false) && pace.is_due(now, true));
        assert!(pace.is_due(now + Duration::from_millis(10_200), false));
        assert!(!pace.must_report(now + secs(149)) && pace.must_report(now + secs(150)));
        pace.done(now, true, 0.0);
        assert_eq!(pace.look_at(now), now + LOOK);
        pace.done(now, false, 0.0);
        assert_eq!(pace.look_at(now), now + LOOK, "once ready, it is not hurried any more");
        pace.sent(now, false, 0.9);
        assert!(!pace.must_report(now + secs(299)) && pace.must_report(now + secs(300)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_cannot_be_told_is_tried_again_less_and_less_soon() {
        let mut now = Instant::now();
        let mut pace = Pace::new(UPDATE, REPORT, now);
        pace.done(now, true, 0.0);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pace.failed(now, 0.0);
            let again = (0..=10).map(|s| now + secs(s)).find(|at| pace.is_due(*at, false)).unwrap();
            pauses.push((again - now).as_secs());
            now = again;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        pace.forget();
        pace.done(now, false, 0.0);
        assert!(!pace.is_due(now + secs(1), false));
    }
}
