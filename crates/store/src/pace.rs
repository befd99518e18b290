//! When to write the file. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::table::Pace;

/// Delay that turns a burst of changes, such as all pods of a booting host, into one write.
const BURST: Duration = Duration::from_millis(100);
/// Minimum interval between writes of deferrable changes, which bounds the writes per day however many containers crash.
const SELDOM: Duration = Duration::from_secs(30);
/// The same for changes whose number grows with the pods.
const RARELY: Duration = Duration::from_secs(300);

/// When to write a change made at `changed`. `last` is the time of the last write.
pub(super) fn due(pace: Pace, changed: Instant, last: Option<Instant>) -> Instant {
    let burst = changed + BURST;
    match (pace, last) {
        (Pace::Now, _) => changed,
        (Pace::Seldom, Some(last)) => burst.max(last + SELDOM),
        (Pace::Rarely, Some(last)) => burst.max(last + RARELY),
        (Pace::Soon, _) | (Pace::Seldom | Pace::Rarely, None) => burst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferrable_changes_wait_and_urgent_ones_do_not() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(due(Pace::Now, after(5), Some(after(5))), after(5));
        assert_eq!(due(Pace::Soon, after(5), Some(after(5))), after(5) + BURST);
        assert_eq!(due(Pace::Seldom, after(5), None), after(5) + BURST);
        assert_eq!(due(Pace::Seldom, after(5), Some(after(1))), after(31));
        assert_eq!(due(Pace::Seldom, after(50), Some(after(1))), after(50) + BURST);
        assert_eq!(due(Pace::Rarely, after(5), None), after(5) + BURST);
        assert_eq!(due(Pace::Rarely, after(5), Some(after(1))), after(301));
    }
}
