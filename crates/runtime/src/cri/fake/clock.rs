//! Reproducible time and IDs of a fake runtime.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Longer than any test, but short enough to be added to an instant.
const AGES: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Wall time derived from tokio's clock, so that it follows paused time.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    base: i64,
    last_creation: i64,
}

impl Clock {
    pub(super) fn new(base: Timestamp) -> Self {
        Self { start: Instant::now(), base: nanos(base.as_nanosecond()), last_creation: i64::MIN }
    }

    /// Sets the clock forward or back by this many seconds.
    pub(super) fn step(&mut self, seconds: i64) {
        self.base = self.base.saturating_add(seconds.saturating_mul(1_000_000_000));
        self.last_creation = i64::MIN;
    }

    /// Nanoseconds since the epoch at `at`, as in the CRI.
    pub(super) fn at(&self, at: Instant) -> i64 {
        self.base.saturating_add(nanos(at.saturating_duration_since(self.start).as_nanos()))
    }

    /// The same for a creation, unique so that "newest" is unambiguous.
    /// The same for starts and exits, exact so that durations are.
    pub(super) fn creation(&mut self, at: Instant) -> i64 {
        self.last_creation = self.at(at).max(self.last_creation.saturating_add(1));
        self.last_creation
    }
}

/// `time` after `at`; an overflow is never.
pub(super) fn later(at: Instant, time: Duration) -> Instant {
    at + time.min(AGES)
}

fn nanos<T: TryInto<i64>>(value: T) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

/// Generator of IDs and addresses.
#[derive(Debug, Default)]
pub(super) struct Allocator {
    ids: u64,
    addresses: u32,
}

impl Allocator {
    /// 64 hex digits like containerd's: unique, unordered, reproducible.
    pub(super) fn id(&mut self) -> String {
        self.ids += 1;
        (0..4).map(|part| format!("{:016x}", mix(self.ids.wrapping_mul(4) + part))).collect()
    }

    /// The next address of the node's range.
    pub(super) fn address(&mut self) -> IpAddr {
        self.addresses += 1;
        // 10.88.0.0/16 without its first addresses; addresses repeat after that.
        let host = 1 + self.addresses % 0xfffe;
        IpAddr::V4(Ipv4Addr::from(0x0a58_0000 | host))
    }
}

/// splitmix64: spreads consecutive numbers over the whole range without collisions.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
