//! How long pods of each priority have, and which pods end together. Pure.

use std::time::Duration;

use hostlet_base::settings::GracefulShutdown;
use hostlet_pod::AdmittedPod;

/// The priority of pods without one, and of critical pods (`scheduling.SystemCriticalPriority`).
const DEFAULT_PRIORITY: i32 = 0;
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// The period of one group of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    /// The lowest priority of its pods, except for the first group, which has all lower ones too.
    pub(super) priority: i32,
    /// How long its pods have, in seconds.
    pub(super) seconds: u64,
}

impl Period {
    /// The grace period of a pod of this group: its own, unless that is longer.
    pub(super) fn grace_seconds(self, pod: &AdmittedPod) -> i64 {
        let seconds = i64::try_from(self.seconds).unwrap_or(i64::MAX);
        pod.grace_seconds.map_or(seconds, |own| own.min(seconds))
    }
}

/// The periods of all groups, by ascending priority. Groups end in this order, one after the other. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownPeriods(Vec<Period>);

impl ShutdownPeriods {
    /// The configured periods; `None` if a shutdown is not delayed. The two grace periods become two groups: critical pods,
    /// and all others before them (upstream `migrateConfig`).
    pub fn new(config: &GracefulShutdown) -> Option<Self> {
        let mut periods: Vec<Period> =
            config.by_priority.iter().map(|&(priority, seconds)| Period { priority, seconds }).collect();
        if periods.is_empty() && !config.total.is_zero() {
            let others = config.total.checked_sub(config.critical)?;
            periods = vec![
                Period { priority: DEFAULT_PRIORITY, seconds: others.as_secs() },
                Period { priority: CRITICAL_PRIORITY, seconds: config.critical.as_secs() },
            ];
        }
        periods.sort_by_key(|period| period.priority);
        (!periods.is_empty()).then_some(Self(periods))
    }

    /// The periods, by ascending priority.
    pub(super) fn all(&self) -> &[Period] {
        &self.0
    }

    /// All periods together: how long a shutdown is delayed at most.
    pub fn total(&self) -> Duration {
        let seconds = self.0.iter().fold(0_u64, |total, period| total.saturating_add(period.seconds));
        Duration::from_secs(seconds)
    }

    /// The group of a pod: the last one whose priority is not above the pod's (upstream `groupByPriority`).
    pub(super) fn group_of(&self, pod: &AdmittedPod) -> usize {
        let priority = pod.spec().priority.unwrap_or(DEFAULT_PRIORITY);
        self.0.partition_point(|period| period.priority <= priority).saturating_sub(1)
    }

    /// The periods shortened in proportion, so that together they take no longer than `granted`. Without this the last groups,
    /// which are the most important, would be killed with the host.
    pub(super) fn within(&self, granted: Duration) -> Self {
        let total: u128 = self.0.iter().map(|period| u128::from(period.seconds)).sum();
        let granted = u128::from(granted.as_secs());
        if total <= granted {
            return self.clone();
        }
        let shortened =
            |seconds: u64| u64::try_from(u128::from(seconds) * granted / total).unwrap_or(seconds);
        Self(self.0.iter().map(|p| Period { seconds: shortened(p.seconds), ..*p }).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use hostlet_pod::testing::pod;

    fn of_priority(priority: Option<i32>) -> std::sync::Arc<AdmittedPod> {
        let mut pod = pod("p", "u", "Always", &["c"]);
        pod.spec.get_or_insert_default().priority = priority;
        AdmittedPod::new(pod)
    }

    fn with_grace(seconds: Option<i64>) -> std::sync::Arc<AdmittedPod> {
        let mut pod = pod("p", "u", "Always", &["c"]);
        pod.spec.get_or_insert_default().termination_grace_period_seconds = seconds;
        AdmittedPod::new(pod)
    }

    fn by_priority(entries: &[(i32, u64)]) -> Option<ShutdownPeriods> {
        ShutdownPeriods::new(&GracefulShutdown {
            by_priority: entries.to_vec(),
            ..GracefulShutdown::default()
        })
    }

    fn two(total_ms: u64, critical_ms: u64) -> Option<Vec<(i32, u64)>> {
        let (total, critical) = (Duration::from_millis(total_ms), Duration::from_millis(critical_ms));
        let periods =
            ShutdownPeriods::new(&GracefulShutdown { total, critical, ..GracefulShutdown::default() })?;
        Some(periods.all().iter().map(|period| (period.priority, period.seconds)).collect())
    }

    #[test]
    fn the_two_grace_periods_are_two_groups_as_upstream() {
        assert_eq!(two(0, 0), None);
        assert_eq!(two(30_000, 10_000), Some(vec![(0, 20), (CRITICAL_PRIORITY, 10)]));
        assert_eq!(two(30_000, 0), Some(vec![(0, 30), (CRITICAL_PRIORITY, 0)]));
        assert_eq!(two(10_000, 10_000), Some(vec![(0, 0), (CRITICAL_PRIORITY, 10)]));
        assert_eq!(two(10_500, 3_000), Some(vec![(0, 7), (CRITICAL_PRIORITY, 3)]), "whole seconds");
        assert_eq!(two(5_000, 6_000), None);
        assert_eq!(by_priority(&[]), None);
    }

    #[test]
    fn pods_are_grouped_as_upstream() {
        let periods = by_priority(&[(100_000, 10), (10_000, 180), (1_000, 120), (0, 60)]).unwrap();
        let groups: Vec<usize> =
            [None, Some(0), Some(-5), Some(999), Some(1_000), Some(9_999), Some(10_000), Some(i32::MAX)]
                .into_iter()
                .map(|priority| periods.group_of(&of_priority(priority)))
                .collect();
        assert_eq!(groups, [0, 0, 0, 0, 1, 1, 2, 3]);
        assert_eq!(periods.total(), Duration::from_secs(370));
        let high_only = by_priority(&[(1_000, 5)]).unwrap();
        assert_eq!(high_only.group_of(&of_priority(None)), 0, "lower than the lowest");
    }

    #[test]
    fn a_pod_has_its_own_grace_period_unless_that_of_its_group_is_shorter() {
        let period = Period { priority: 0, seconds: 10 };
        let of = |own| period.grace_seconds(&with_grace(own));
        assert_eq!([of(Some(30)), of(Some(10)), of(Some(3)), of(Some(0)), of(None)], [10, 10, 3, 0, 10]);
    }

    #[test]
    fn periods_shrink_in_proportion_to_what_is_granted() {
        let periods = by_priority(&[(0, 20), (CRITICAL_PRIORITY, 10)]).unwrap();
        let seconds = |granted| {
            let within = periods.within(Duration::from_secs(granted));
            within.all().iter().map(|period| period.seconds).collect::<Vec<_>>()
        };
        assert_eq!(seconds(30), [20, 10]);
        assert_eq!(seconds(3600), [20, 10]);
        assert_eq!(seconds(5), [3, 1]);
        assert_eq!(seconds(0), [0, 0]);
    }

    proptest! {
        /// Each pod is in exactly one group, a pod of higher priority never before one of lower, and the time is bounded.
        #[test]
        fn groups_are_ordered_and_their_time_is_bounded(
            entries in proptest::collection::btree_map(any::<i32>(), any::<u64>(), 1..8),
            mut priorities in proptest::collection::vec(proptest::option::of(any::<i32>()), 0..40),
            granted in any::<u64>(),
        ) {
            let entries: Vec<(i32, u64)> = entries.into_iter().collect();
            let periods = by_priority(&entries).unwrap();
            priorities.sort_by_key(|priority| priority.unwrap_or_default());
            let mut last = 0;
            for priority in priorities {
                let group = periods.group_of(&of_priority(priority));
                prop_assert!(group < entries.len() && group >= last);
                let priority = priority.unwrap_or_default();
                prop_assert!(entries[group].0 <= priority || group == 0);
                prop_assert!(entries.get(group + 1).is_none_or(|next| next.0 > priority));
                last = group;
            }
            let within = periods.within(Duration::from_secs(granted));
            prop_assert!(within.total() <= periods.total().min(Duration::from_secs(granted)));
            prop_assert_eq!(within.all().len(), periods.all().len());
        }
    }
}
