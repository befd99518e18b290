//! Converts CPU amounts to the kernel's units: millicores to shares, shares to weight, millicores to quota. Pure.

use std::time::Duration;

/// The minimum of `cpu.shares`.
pub const MIN_SHARES: u64 = 2;
/// The maximum of `cpu.shares`.
const MAX_SHARES: u64 = 262_144;

/// Shares of one core.
const SHARES_PER_CPU: u64 = 1024;
/// The minimum quota in microseconds (sched-bwc).
const MIN_QUOTA_MICROS: i64 = 1000;
/// The maximum that the kernel accepts (`max_cfs_runtime`): more cores than any host has.
const MAX_QUOTA_MICROS: i64 = (1 << 44) - 1;
/// The maximum of `cpu.weight`.
const MAX_WEIGHT: u64 = 10_000;

/// Shares for a request of `milli_cpu` thousandths of a core: 1024 per core, within the kernel's bounds.
pub fn cpu_shares(milli_cpu: i64) -> u64 {
    let milli_cpu = u64::try_from(milli_cpu).unwrap_or(0);
    (milli_cpu.saturating_mul(SHARES_PER_CPU) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

/// Microseconds of CPU time per `period` for a limit of `milli_cpu` thousandths of a core, within the kernel's bounds; `None` for no
/// limit.
pub fn cpu_quota(milli_cpu: i64, period: Duration) -> Option<i64> {
    let period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
    (milli_cpu > 0)
        .then(|| (milli_cpu.saturating_mul(period) / 1000).clamp(MIN_QUOTA_MICROS, MAX_QUOTA_MICROS))
}

/// The v2 `cpu.weight` of v1 `cpu.shares`: linear from (2, 1) to (262144, 10000), as the stock kubelet does for pods and
/// classes (`getCPUWeight` of its cgroup manager). Runtimes use another curve, but only for containers within one pod.
pub(super) fn cpu_weight(shares: u64) -> u64 {
    1 + (shares.clamp(MIN_SHARES, MAX_SHARES) - MIN_SHARES) * (MAX_WEIGHT - 1) / (MAX_SHARES - MIN_SHARES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    #[test]
    fn shares_as_upstream_tests_have_them() {
        let cases = [
            (i64::MIN, 2),
            (0, 2),
            (1, 2),
            (2, 2),
            (100, 102),
            (500, 512),
            (1000, 1024),
            (1_000_000, 262_144),
        ];
        for (milli, shares) in cases {
            assert_eq!(cpu_shares(milli), shares, "{milli}m");
        }
    }

    #[test]
    fn quota_is_never_below_one_millisecond() {
        assert_eq!(cpu_quota(0, PERIOD), None);
        assert_eq!(cpu_quota(-1, PERIOD), None);
        assert_eq!(cpu_quota(5, PERIOD), Some(1000));
        assert_eq!(cpu_quota(10, PERIOD), Some(1000));
        assert_eq!(cpu_quota(200, PERIOD), Some(20_000));
        assert_eq!(cpu_quota(1500, PERIOD), Some(150_000));
        assert_eq!(cpu_quota(1000, Duration::from_millis(5)), Some(5000));
    }

    #[test]
    fn weight_maps_least_default_and_most() {
        let cases =
            [(0, 1), (2, 1), (3, 1), (102, 4), (1024, 39), (2048, 79), (262_144, 10_000), (u64::MAX, 10_000)];
        for (shares, weight) in cases {
            assert_eq!(cpu_weight(shares), weight, "{shares} shares");
        }
    }

    proptest! {
        #[test]
        fn more_cpu_is_never_less_weight(a in 0i64..400_000_000, b in 0i64..400_000_000) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(cpu_shares(low) <= cpu_shares(high));
            prop_assert!(cpu_weight(cpu_shares(low)) <= cpu_weight(cpu_shares(high)));
            prop_assert!((1..=10_000).contains(&cpu_weight(cpu_shares(low))));
        }

        #[test]
        fn extremes_do_not_overflow(milli in any::<i64>(), period in 1u64..u64::MAX / 1000) {
            prop_assert!((MIN_SHARES..=MAX_SHARES).contains(&cpu_shares(milli)));
            if let Some(quota) = cpu_quota(milli, Duration::from_micros(period)) {
                prop_assert!((1000..1 << 44).contains(&quota));
            }
        }
    }
}
