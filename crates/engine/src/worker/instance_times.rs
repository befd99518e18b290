//! When the instances of a pod's containers were created and terminated, by a clock that nobody sets. The runtime records these times
//! with the wall clock; each is converted when it is first observed, so that setting the clock changes no back-off. Pure.

use std::collections::HashMap;

use hostlet_base::ContainerId;
use hostlet_runtime::cri::ContainerStatus;
use jiff::{SignedDuration, Timestamp};

/// The clock counts as set if it deviates by more than this since the last observation.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(1);

/// The times of one instance.
#[derive(Clone, Copy, Debug)]
struct Times {
    created: Timestamp,
    finished: Option<Timestamp>,
}

/// The times of the instances of one pod's containers.
#[derive(Clone, Debug, Default)]
pub(super) struct InstanceTimes {
    known: HashMap<ContainerId, Times>,
    /// The difference between the wall clock and the steady one at the last observation.
    offset: Option<SignedDuration>,
}

impl InstanceTimes {
    /// Takes in the instances that the runtime has; the others are forgotten. If the clock was set since the last observation, what
    /// is new happened now: when exactly is unknown, and a back-off must not be cut short.
    pub(super) fn observe(&mut self, instances: &[ContainerStatus], wall: Timestamp, steady: Timestamp) {
        let offset = wall.duration_since(steady);
        let was_set = self.offset.is_some_and(|before| (offset - before).abs() > TOLERANCE);
        self.offset = Some(offset);
        let steady_of = |recorded: Timestamp| match was_set {
            true => steady,
            false => recorded.saturating_sub(offset).unwrap_or(steady).min(steady),
        };
        self.known.retain(|id, _| instances.iter().any(|instance| instance.id == *id));
        for instance in instances {
            let new = || Times { created: steady_of(instance.created_at), finished: None };
            let times = self.known.entry(instance.id.clone()).or_insert_with(new);
            times.finished = times.finished.or(instance.finished_at.map(steady_of));
        }
    }

    /// When an instance was created.
    pub(super) fn created(&self, instance: &ContainerStatus) -> Timestamp {
        self.known.get(&instance.id).map_or(instance.created_at, |times| times.created)
    }

    /// When an instance terminated, if it has.
    pub(super) fn finished(&self, instance: &ContainerStatus) -> Option<Timestamp> {
        let known = self.known.get(&instance.id).and_then(|times| times.finished);
        known.or(instance.finished_at)
    }

    /// A steady time as the wall clock shows it now.
    pub(super) fn wall(&self, steady: Timestamp) -> Timestamp {
        steady.saturating_add(self.offset.unwrap_or_default()).unwrap_or(steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;
    use hostlet_pod::testing;

    const TEN_YEARS: i64 = 10 * 365 * 86_400;
    const BEGIN: i64 = 2 * TEN_YEARS;

    fn ended(attempt: u32, created: i64, finished: Option<i64>) -> ContainerStatus {
        ContainerStatus {
            created_at: at(created),
            finished_at: finished.map(at),
            ..testing::exited("c", attempt, 1)
        }
    }

    #[test]
    fn times_stay_what_they_were_when_the_clock_is_set() {
        for step in [-TEN_YEARS, TEN_YEARS] {
            let mut times = InstanceTimes::default();
            let runs = ended(0, BEGIN, None);
            times.observe(std::slice::from_ref(&runs), at(BEGIN + 5), at(BEGIN + 5));
            // It terminated within the two seconds in which the clock was set.
            let ended_then = ended(0, BEGIN, Some(BEGIN + step + 6));
            times.observe(std::slice::from_ref(&ended_then), at(BEGIN + step + 7), at(BEGIN + 7));
            assert_eq!(times.finished(&ended_then), Some(at(BEGIN + 7)));
            // The next one lives by the new clock.
            let next = ended(1, BEGIN + step + 10, Some(BEGIN + step + 20));
            times.observe(&[ended_then.clone(), next.clone()], at(BEGIN + step + 25), at(BEGIN + 25));
            assert_eq!((times.created(&next), times.finished(&next)), (at(BEGIN + 10), Some(at(BEGIN + 20))));
            assert_eq!(times.created(&ended_then), at(BEGIN));
            assert_eq!(times.wall(at(BEGIN + 20)), at(BEGIN + step + 20));
            times.observe(&[], at(BEGIN + step + 26), at(BEGIN + 26));
            assert!(times.known.is_empty());
        }
    }

    #[test]
    fn what_an_earlier_daemon_left_in_the_future_happened_now() {
        let mut times = InstanceTimes::default();
        let status = ended(3, BEGIN + TEN_YEARS, Some(BEGIN + TEN_YEARS + 5));
        times.observe(std::slice::from_ref(&status), at(BEGIN), at(BEGIN));
        assert_eq!((times.created(&status), times.finished(&status)), (at(BEGIN), Some(at(BEGIN))));
    }
}
