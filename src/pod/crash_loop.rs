//! CrashLoopBackOff: how long a container that ended waits before it is started again.
//!
//! 10 s after the second end, doubling to a cap, forgotten once a container ran longer than ten minutes (upstream's
//! `flowcontrol.Backoff` with the window measured from the container's end). A daemon that just started works out from
//! the attempt what its predecessor had counted, so a restart of the daemon is no way out of a back-off.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cri::ContainerStatus;
use crate::types::{Backoff, BackoffPolicy};

/// First pause.
const INITIAL: Duration = Duration::from_secs(10);
/// A gap between two restarts longer than this starts the count anew.
const RESET_AFTER: Duration = Duration::from_secs(600);

/// The back-offs of one pod's containers. They count wall-clock time, as only that tells when a container ended.
#[derive(Clone, Debug)]
pub struct CrashLoops {
    policy: BackoffPolicy,
    /// By name and hash: a container whose definition changed starts with a clean slate.
    entries: HashMap<(Arc<str>, Option<u32>), Backoff<Timestamp>>,
}

impl CrashLoops {
    /// No container has crashed yet. `cap` is the longest pause (`crashLoopBackOff.maxContainerRestartPeriod`, 300 s).
    pub fn new(cap: Duration) -> Self {
        let policy = BackoffPolicy { initial: INITIAL, max: cap, reset_after: RESET_AFTER };
        Self { policy, entries: HashMap::new() }
    }

    /// The pause in force for a container that ended, and when it is over; `None` if it may start at once.
    pub fn in_force(&self, ended: &ContainerStatus, now: Timestamp) -> Option<(Duration, Timestamp)> {
        let entry = self.entry(ended)?;
        let left = entry.remaining(&self.policy, ended.finished_at?, now)?;
        Some((entry.delay, now.checked_add(left).ok()?))
    }

    /// The container that ended is started anew now.
    pub fn restarted(&mut self, ended: &ContainerStatus, now: Timestamp) {
        let end = ended.finished_at.unwrap_or(now);
        let next = Backoff::next(self.entry(ended), &self.policy, end, now);
        self.entries.insert((ended.name.clone(), ended.hash), next);
    }

    fn entry(&self, ended: &ContainerStatus) -> Option<Backoff<Timestamp>> {
        let key = (ended.name.clone(), ended.hash);
        self.entries.get(&key).copied().or_else(|| self.inherited(ended))
    }

    /// What a predecessor of this daemon must have counted if no count was ever reset: attempt n is the n-th restart.
    fn inherited(&self, ended: &ContainerStatus) -> Option<Backoff<Timestamp>> {
        let doublings = ended.attempt.checked_sub(1)?.min(16);
        let delay = (INITIAL * (1 << doublings)).min(self.policy.max);
        Some(Backoff { delay, updated: ended.created_at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pod::testing;

    const CAP: Duration = Duration::from_secs(300);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ended(attempt: u32, created: i64, finished: i64) -> ContainerStatus {
        ContainerStatus {
            created_at: at(created),
            finished_at: Some(at(finished)),
            ..testing::exited("c", attempt, 1)
        }
    }

    #[test]
    fn pauses_double_from_ten_seconds_to_the_cap() {
        let mut loops = CrashLoops::new(CAP);
        let mut now = 1000;
        let mut pauses = Vec::new();
        for attempt in 0..8 {
            let status = ended(attempt, now, now + 1);
            match loops.in_force(&status, at(now + 1)) {
                Some((pause, over)) => {
                    assert_eq!(over, at(now + 1 + i64::try_from(pause.as_secs()).unwrap()));
                    assert!(loops.in_force(&status, over).is_none());
                    pauses.push(pause.as_secs());
                    now = over.as_second();
                }
                None => {
                    pauses.push(0);
                    now += 1;
                }
            }
            loops.restarted(&status, at(now));
        }
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_long_run_resets_the_count() {
        let mut loops = CrashLoops::new(CAP);
        loops.restarted(&ended(4, 0, 1), at(10));
        let status = ended(5, 10, 10 + 601);
        assert!(loops.in_force(&status, at(611)).is_none());
        loops.restarted(&status, at(611));
        assert_eq!(loops.in_force(&ended(6, 611, 612), at(612)).unwrap().0, INITIAL);
    }

    #[test]
    fn a_clock_set_by_a_day_holds_no_container_back() {
        const DAY: i64 = 86_400;
        for step in [-DAY, DAY] {
            let mut loops = CrashLoops::new(CAP);
            loops.restarted(&ended(1, 10 * DAY, 10 * DAY + 1), at(10 * DAY + 1));
            let status = ended(2, 10 * DAY + 1, 10 * DAY + 2);
            assert_eq!(loops.in_force(&status, at(10 * DAY + 2)).unwrap().0.as_secs(), 20);
            let now = 10 * DAY + 2 + step;
            assert!(loops.in_force(&status, at(now)).is_none(), "the clock was set by {step} s");
            loops.restarted(&status, at(now));
            let again = ended(3, now, now + 1);
            assert_eq!(loops.in_force(&again, at(now + 1)).unwrap().0.as_secs(), 40);
        }
    }

    #[test]
    fn a_cap_below_ten_seconds_is_the_first_pause_too() {
        let mut loops = CrashLoops::new(Duration::from_secs(2));
        loops.restarted(&ended(0, 0, 1), at(1));
        assert_eq!(loops.in_force(&ended(1, 1, 2), at(2)).unwrap().0.as_secs(), 2);
    }

    #[test]
    fn a_changed_definition_starts_with_a_clean_slate() {
        let mut loops = CrashLoops::new(CAP);
        loops.restarted(&ended(0, 0, 1), at(1));
        let changed = ContainerStatus { hash: Some(7), attempt: 0, ..ended(0, 1, 2) };
        assert!(loops.in_force(&changed, at(2)).is_none());
    }

    proptest! {
        /// A daemon restarted between any two crashes of an unbroken loop counts on as its predecessor would have.
        #[test]
        fn a_new_daemon_inherits_the_back_off(crashes in 1u32..9, restart_after in 0u32..9, run in 0i64..60) {
            let mut loops = CrashLoops::new(CAP);
            let mut fresh = CrashLoops::new(CAP);
            let mut now = 1000;
            for attempt in 0..crashes {
                if attempt == restart_after {
                    fresh = CrashLoops::new(CAP);
                }
                let status = ended(attempt, now, now + run);
                let one = loops.in_force(&status, at(now + run));
                let other = fresh.in_force(&status, at(now + run));
                prop_assert_eq!(one, other);
                now = one.map_or(now + run, |(_, over)| over.as_second());
                loops.restarted(&status, at(now));
                fresh.restarted(&status, at(now));
            }
        }
    }
}
