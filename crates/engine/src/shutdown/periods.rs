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
#[path = "periods_tests.rs"]
mod tests;
