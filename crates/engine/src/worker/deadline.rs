//! How long a pod may be active (`activeDeadlineSeconds`), and how long it has been. Terminates nothing.
//!
//! The start time of its status is a time of the wall clock. As for the stock kubelet, it counts where nothing else is known: for a pod
//! of an earlier boot. From then on the host's uptime counts, which a new daemon of the same boot continues with, so setting the clock
//! ends no pod. (The stock kubelet does so only until it is restarted.)

use std::time::Duration;

use hostlet_base::{Moment, PodUid};
use hostlet_store::{Store, Table};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Upstream's message for a pod that was active for too long, and for its event.
pub(crate) const PAST_DEADLINE: &str = "Pod was active on the node longer than the specified deadline";

/// The time left of a pod's `limit` in seconds, zero if it is over.
pub(super) fn time_left(limit: i64, active: Duration) -> Duration {
    Duration::from_secs(u64::try_from(limit).unwrap_or_default()).saturating_sub(active)
}

/// A pod's row.
#[derive(Clone, Copy)]
pub(super) struct ActiveRecord<'a> {
    pub(super) store: &'a Store,
    pub(super) pod: &'a PodUid,
    /// The host's.
    pub(super) boot_id: &'a str,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredStart {
    boot_id: String,
    /// The host's uptime at the start, negative for a pod that is older than the boot.
    uptime_ms: i64,
}

/// How long a pod has been active.
#[derive(Debug, Default)]
pub(super) struct ActiveTime {
    /// The host's uptime at its start.
    since: Option<SignedDuration>,
}

impl ActiveTime {
    /// The time at this uptime, if this daemon or an earlier one of this boot knows.
    pub(super) fn known(&mut self, record: ActiveRecord<'_>, uptime: Duration) -> Option<Duration> {
        if self.since.is_none() {
            let stored: Option<StoredStart> = record.store.get(Table::ActiveSince, record.pod.as_str());
            let of_boot = stored.filter(|stored| stored.boot_id == record.boot_id);
            self.since = of_boot.map(|stored| SignedDuration::from_millis(stored.uptime_ms));
        }
        Some(elapsed(self.since?, uptime))
    }

    /// The time for a pod whose status says that it was started then.
    pub(super) fn begin(
        &mut self,
        record: ActiveRecord<'_>,
        started: Timestamp,
        now: Timestamp,
        uptime: Duration,
    ) -> Duration {
        let active = SignedDuration::try_from(Moment::since(now, started)).unwrap_or(SignedDuration::MAX);
        let since = SignedDuration::try_from(uptime).unwrap_or_default().saturating_sub(active);
        self.since = Some(since);
        let uptime_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MIN);
        let row = StoredStart { boot_id: record.boot_id.to_owned(), uptime_ms };
        record.store.put(Table::ActiveSince, record.pod.as_str(), &row);
        elapsed(since, uptime)
    }
}

fn elapsed(since: SignedDuration, uptime: Duration) -> Duration {
    let uptime = SignedDuration::try_from(uptime).unwrap_or(SignedDuration::MAX);
    Duration::try_from(uptime.saturating_sub(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;

    const TEN_YEARS: i64 = 10 * 365 * 86_400;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_deadline_is_what_is_left() {
        assert_eq!([0, 30, 60, 900].map(|active| time_left(60, seconds(active)).as_secs()), [60, 30, 0, 0]);
        assert_eq!(time_left(i64::MAX, seconds(100)).as_secs(), i64::MAX as u64 - 100);
        assert_eq!(time_left(-1, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_time_counts_from_the_start_and_then_by_the_uptime() {
        let (store, pod) = (Store::default(), PodUid::from("u"));
        let record = |boot_id| ActiveRecord { store: &store, pod: &pod, boot_id };
        let mut active = ActiveTime::default();
        assert_eq!(active.known(record("a"), seconds(10)), None);
        assert_eq!(
            active.begin(record("a"), at(2 * TEN_YEARS), at(2 * TEN_YEARS + 30), seconds(10)),
            seconds(30)
        );
        assert_eq!(active.known(record("a"), seconds(15)), Some(seconds(35)));
        // The next daemon of the boot asks no clock that may have been set.
        assert_eq!(ActiveTime::default().known(record("a"), seconds(20)), Some(seconds(40)));
        // After a boot, the clock is all there is; one that is behind makes no pod older.
        assert_eq!(ActiveTime::default().known(record("b"), seconds(1)), None);
        let begun = |now| ActiveTime::default().begin(record("b"), at(2 * TEN_YEARS), at(now), seconds(1));
        assert_eq!(begun(2 * TEN_YEARS + 60), seconds(60));
        assert_eq!(begun(TEN_YEARS), Duration::ZERO);
    }
}
