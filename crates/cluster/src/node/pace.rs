//! Decides when the status is computed, and when it is sent although nothing changed. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::api::pause;

/// How often readiness is checked: a node often becomes unready because something stops happening.
const CHECK: Duration = Duration::from_secs(1);

/// The same until the node first becomes ready; upstream's constant.
const CHECK_AT_START: Duration = Duration::from_millis(100);

/// The interval between computations is lengthened by up to this fraction, so that nodes do not synchronize; upstream's
/// constant.
const JITTER: f64 = 0.04;

/// The schedule of one node's status. `random` is in 0..1.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    update: Duration,
    report: Duration,
    /// When the status is next computed, whatever happens.
    next: Instant,
    /// When it is next sent, even if it has not changed.
    report_at: Instant,
    /// When it was last sent.
    sent_at: Option<Instant>,
    /// The readiness that the API server has; `None` if unknown.
    reported: Option<bool>,
    /// Whether the node has been ready since the daemon started.
    was_ready: bool,
    /// Consecutive failed updates.
    failures: u32,
    /// No update is tried before this time.
    hold: Instant,
}

impl Pace {
    /// The schedule of a node whose status was not reported yet.
    pub(super) fn new(update: Duration, report: Duration, now: Instant) -> Self {
        Self {
            update,
            report,
            next: now,
            report_at: now,
            sent_at: None,
            reported: None,
            was_ready: false,
            failures: 0,
            hold: now,
        }
    }

    /// When to check again, unless an input changes earlier.
    pub(super) fn next_check(&self, now: Instant) -> Instant {
        let check = if self.was_ready { CHECK } else { CHECK_AT_START };
        self.next.min(now + check)
    }

    /// Whether to compute the status now, given the current readiness.
    pub(super) fn is_due(&self, now: Instant, ready: bool) -> bool {
        now >= self.hold && (now >= self.next || self.reported != Some(ready))
    }

    /// Whether to send the status although nothing changed.
    pub(super) fn must_report(&self, now: Instant) -> bool {
        now >= self.report_at
    }

    /// Records that the status was sent. After a change, the next report is due at a random time around the frequency, so that an
    /// event that changed many nodes at once does not synchronize their reports.
    pub(super) fn sent(&mut self, now: Instant, changed: bool, random: f64) {
        let factor = if changed { 0.5 + random } else { 1.0 };
        self.report_at = now + self.report.mul_f64(factor);
        self.sent_at = Some(now);
    }

    /// Records that an update succeeded: the API server has this readiness.
    pub(super) fn done(&mut self, now: Instant, ready: bool, random: f64) {
        self.reported = Some(ready);
        self.was_ready |= ready;
        self.failures = 0;
        self.hold = now;
        self.next = now + self.update.mul_f64(1.0 + JITTER * random);
    }

    /// Records that an update failed. Changed readiness is retried with exponential back-off.
    pub(super) fn failed(&mut self, now: Instant, random: f64) {
        let delay = CHECK.saturating_mul(1 << self.failures.min(16)).min(self.update);
        let pause = pause(delay, Duration::ZERO, random);
        self.failures = self.failures.saturating_add(1);
        self.hold = now + pause;
        self.next = now + self.update.mul_f64(1.0 + JITTER * random);
    }

    /// Records that the API server shows another readiness: the control plane gave this node up, or somebody else writes it. The second
    /// must not make this node write continuously, so that only a status that was sent some time ago is corrected at once.
    pub(super) fn contradicted(&mut self, now: Instant) {
        if self.sent_at.is_none_or(|sent_at| now >= sent_at + self.update) {
            self.forget();
        }
    }

    /// Records that the readiness on the API server is no longer known, or that other urgent facts changed.
    pub(super) fn forget(&mut self) {
        self.reported = None;
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
    async fn a_status_is_computed_on_schedule_and_when_readiness_changes() {
        let now = Instant::now();
        let mut pace = Pace::new(UPDATE, REPORT, now);
        assert!(pace.is_due(now, false) && pace.must_report(now));
        assert_eq!(pace.next_check(now + secs(1)), now);
        pace.sent(now, true, 0.0);
        pace.done(now, false, 0.5);
        assert_eq!(pace.next_check(now), now + CHECK_AT_START);
        assert!(!pace.is_due(now + secs(10), false) && pace.is_due(now, true));
        assert!(pace.is_due(now + Duration::from_millis(10_200), false));
        assert!(!pace.must_report(now + secs(149)) && pace.must_report(now + secs(150)));
        pace.done(now, true, 0.0);
        assert_eq!(pace.next_check(now), now + CHECK);
        pace.done(now, false, 0.0);
        assert_eq!(pace.next_check(now), now + CHECK, "once ready, it is checked less often");
        pace.sent(now, false, 0.9);
        assert!(!pace.must_report(now + secs(299)) && pace.must_report(now + secs(300)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_update_is_retried_with_back_off() {
        let mut now = Instant::now();
        let mut pace = Pace::new(UPDATE, REPORT, now);
        pace.done(now, true, 0.0);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pace.failed(now, 1.0);
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
