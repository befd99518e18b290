//! When to write. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::table::Pace;

/// A burst of changes, such as all pods of a host that boots, is one write.
const BURST: Duration = Duration::from_millis(100);
/// Least time between two writes of what is written seldom: however many containers crash, so many writes a day.
const SELDOM: Duration = Duration::from_secs(30);

/// When what changed at `changed` is to be written. `last` is when something was last written.
pub(super) fn due(pace: Pace, changed: Instant, last: Option<Instant>) -> Instant {
    let burst = changed + BURST;
    match (pace, last) {
        (Pace::Now, _) => changed,
        (Pace::Seldom, Some(last)) => burst.max(last + SELDOM),
        (Pace::Soon, _) | (Pace::Seldom, None) => burst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_wait_waits_for_its_turn_and_what_may_not_does_not() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(due(Pace::Now, after(5), Some(after(5))), after(5));
        assert_eq!(due(Pace::Soon, after(5), Some(after(5))), after(5) + BURST);
        assert_eq!(due(Pace::Seldom, after(5), None), after(5) + BURST);
        assert_eq!(due(Pace::Seldom, after(5), Some(after(1))), after(31));
        assert_eq!(due(Pace::Seldom, after(50), Some(after(1))), after(50) + BURST);
    }
}
