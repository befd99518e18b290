//! The rate limit of events: a failing disk makes the kernel log the same a thousand times a second. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::TokenBucket;
use tokio::time::Instant;

/// Events of one reason before they are limited. All reasons of a failing disk together stay below the 25 warnings that the recorder of
/// events grants the Node, which has other events as well.
const BURST: u32 = 3;

/// The interval of further events of that reason; that of upstream's recorder.
const REFILL: Duration = Duration::from_secs(300);

/// A bucket for each reason.
#[derive(Debug, Default)]
pub(super) struct EventLimit(BTreeMap<&'static str, TokenBucket>);

impl EventLimit {
    /// Whether an event of this reason may be recorded now.
    pub(super) fn permits(&mut self, reason: &'static str, now: Instant) -> bool {
        self.0.entry(reason).or_insert_with(|| TokenBucket::new(BURST, REFILL, now)).try_take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_reason_is_limited_on_its_own() {
        let (mut limit, now) = (EventLimit::default(), Instant::now());
        let permitted = (0..100).filter(|_| limit.permits("Ext4Error", now)).count();
        assert_eq!(permitted, 3);
        assert!(limit.permits("DiskReset", now));
        let later = now + REFILL;
        assert!(limit.permits("Ext4Error", later) && !limit.permits("Ext4Error", later));
        let much_later = now + REFILL * 1000;
        assert_eq!((0..100).filter(|_| limit.permits("Ext4Error", much_later)).count(), 3);
    }
}
