//! Exponential back-off as a value. Reads no clock.
//!
//! The rules are those of client-go's `flowcontrol.Backoff`, which the kubelet uses for image pulls and crash loops: the delay
//! doubles up to a cap, and is reset after a long enough pause.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A point in time on a clock. Waits within the process use tokio's monotonic clock, which tests can pause; waits from times that
/// the runtime recorded (a container's exit) need the wall clock. The arithmetic serves both.
pub trait Moment: Copy {
    /// Time since `earlier`; zero if `earlier` is later, e.g. after the wall clock was set back.
    fn since(self, earlier: Self) -> Duration;
}

impl Moment for Instant {
    fn since(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl Moment for Timestamp {
    fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.duration_since(earlier)).unwrap_or_default()
    }
}

/// Parameters of a back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// The first delay, at most the cap.
    pub initial: Duration,
    /// The longest delay that doubling leads to.
    pub max: Duration,
    /// A failure this long after the previous one resets the delay.
    pub reset_after: Duration,
}

/// A back-off in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff<T> {
    /// The current delay.
    pub delay: Duration,
    /// When the delay was set.
    pub updated: T,
}

impl<T: Moment> Backoff<T> {
    /// The back-off after another failure. `event` is the time of the failure, `now` the time it was noticed.
    pub fn next(previous: Option<Self>, policy: &BackoffPolicy, event: T, now: T) -> Self {
        let delay = match previous {
            Some(previous) if !previous.expired(policy, event) => previous.delay.saturating_mul(2),
            Some(_) | None => policy.initial,
        };
        Self { delay: delay.min(policy.max), updated: now }
    }

    /// Whether an event at this time resets the delay.
    pub fn expired(&self, policy: &BackoffPolicy, event: T) -> bool {
        event.since(self.updated) > policy.reset_after
    }

    /// The remaining wait, counted from `event`; `None` once it is over.
    ///
    /// An event further in the future than the whole delay shows that the clock was set back. Its age is unknown, and
    /// waiting for the clock to catch up could take days, so the wait is over.
    pub fn remaining(&self, policy: &BackoffPolicy, event: T, now: T) -> Option<Duration> {
        if self.expired(policy, event) || event.since(now) > self.delay {
            return None;
        }
        self.delay.checked_sub(now.since(event)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::at;

    const POLICY: BackoffPolicy = BackoffPolicy {
        initial: Duration::from_secs(10),
        max: Duration::from_secs(300),
        reset_after: Duration::from_secs(600),
    };

    #[test]
    fn delays_double_from_the_initial_one_to_the_cap() {
        let mut now = at(0);
        let mut backoff = None;
        let mut delays = Vec::new();
        for _ in 0..7 {
            let next = Backoff::next(backoff, &POLICY, now, now);
            delays.push(next.delay.as_secs());
            now += next.delay;
            backoff = Some(next);
        }
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_cap_below_the_initial_delay_wins() {
        let policy = BackoffPolicy { max: Duration::from_secs(2), ..POLICY };
        assert_eq!(Backoff::next(None, &policy, at(0), at(0)).delay, Duration::from_secs(2));
    }

    #[test]
    fn the_wait_counts_from_the_event() {
        let backoff = Backoff { delay: Duration::from_secs(10), updated: at(100) };
        assert_eq!(backoff.remaining(&POLICY, at(103), at(104)), Some(Duration::from_secs(9)));
        assert_eq!(backoff.remaining(&POLICY, at(103), at(113)), None);
    }

    #[test]
    fn a_pause_longer_than_the_reset_resets_the_delay() {
        let backoff = Backoff { delay: Duration::from_secs(300), updated: at(0) };
        assert_eq!(Backoff::next(Some(backoff), &POLICY, at(600), at(600)).delay, POLICY.max);
        assert_eq!(Backoff::next(Some(backoff), &POLICY, at(601), at(601)).delay, POLICY.initial);
        assert_eq!(backoff.remaining(&POLICY, at(601), at(601)), None);
    }

    #[test]
    fn a_clock_set_back_prolongs_no_wait() {
        let backoff = Backoff { delay: Duration::from_secs(10), updated: at(100) };
        assert_eq!(backoff.remaining(&POLICY, at(100), at(95)), Some(Duration::from_secs(10)));
        assert_eq!(backoff.remaining(&POLICY, at(100), at(89)), None);
        assert_eq!(backoff.remaining(&POLICY, at(100), at(100 - 86_400)), None);
    }

    proptest! {
        /// A caller that checks again when the wait should be over waits at most three times as long, for any clock change.
        #[test]
        fn waits_end_when_the_clock_is_set(step in -200_000i64..200_000, after in 0i64..400, delay in 1u64..300) {
            let backoff = Backoff { delay: Duration::from_secs(delay), updated: at(1_000_000) };
            let event = at(1_000_001);
            let mut waited = Duration::ZERO;
            let clock = |waited: Duration| {
                let real = i64::try_from(waited.as_secs()).unwrap();
                event + jiff::SignedDuration::from_secs(real + if real >= after { step } else { 0 })
            };
            while let Some(left) = backoff.remaining(&POLICY, event, clock(waited)) {
                prop_assert!(left <= backoff.delay);
                waited += left;
                prop_assert!(waited <= 3 * backoff.delay, "still waiting after {waited:?}");
            }
        }

        /// For any failures: a delay is within its bounds, fully remaining at first, and over in time.
        #[test]
        fn delays_stay_in_bounds_and_end(gaps in proptest::collection::vec(0i64..2_000, 1..30)) {
            let mut now = 0;
            let mut previous: Option<Backoff<Timestamp>> = None;
            for gap in gaps {
                now += gap;
                let next = Backoff::next(previous, &POLICY, at(now), at(now));
                prop_assert!(POLICY.initial <= next.delay && next.delay <= POLICY.max);
                if let Some(previous) = previous {
                    let anew = gap > POLICY.reset_after.as_secs() as i64;
                    prop_assert_eq!(anew || next.delay >= previous.delay, true);
                    prop_assert!(!anew || next.delay == POLICY.initial);
                }
                prop_assert_eq!(next.remaining(&POLICY, at(now), at(now)), Some(next.delay));
                prop_assert_eq!(next.remaining(&POLICY, at(now), at(now) + next.delay), None);
                previous = Some(next);
            }
        }
    }
}
