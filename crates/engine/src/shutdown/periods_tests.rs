//! Groups of pods and the grace periods that a shutdown leaves them.

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
    ShutdownPeriods::new(&GracefulShutdown { by_priority: entries.to_vec(), ..GracefulShutdown::default() })
}

fn two(total_ms: u64, critical_ms: u64) -> Option<Vec<(i32, u64)>> {
    let (total, critical) = (Duration::from_millis(total_ms), Duration::from_millis(critical_ms));
    let periods = ShutdownPeriods::new(&GracefulShutdown { total, critical, ..GracefulShutdown::default() })?;
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
