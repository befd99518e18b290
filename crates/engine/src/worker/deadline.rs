//! How long a pod may be active (`activeDeadlineSeconds`): from the start time of its status on, which a new daemon continues with.
//! Pure; terminates nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Upstream's message for a pod that was active for too long, and for its event.
pub(crate) const PAST_DEADLINE: &str = "Pod was active on the node longer than the specified deadline";

/// The time left of a pod's `limit` in seconds, zero if it is over. A pod without a start time starts `now`.
pub(super) fn time_left(limit: i64, started: Option<Timestamp>, now: Timestamp) -> Duration {
    let active = now.duration_since(started.unwrap_or(now));
    Duration::try_from(SignedDuration::from_secs(limit).saturating_sub(active)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;

    #[test]
    fn the_deadline_counts_from_the_start_time() {
        let left = |started: Option<i64>, now| time_left(60, started.map(at), at(now)).as_secs();
        assert_eq!(
            [left(None, 100), left(Some(100), 130), left(Some(100), 160), left(Some(100), 900)],
            [60, 30, 0, 0]
        );
        assert_eq!(time_left(i64::MAX, Some(at(0)), at(100)).as_secs(), i64::MAX as u64 - 100);
    }
}
