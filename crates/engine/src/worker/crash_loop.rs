//! CrashLoopBackOff: how long a terminated container waits before it is restarted.
//!
//! 10 s after the second termination, doubling to a cap, reset once a container ran for more than ten minutes (upstream's
//! `flowcontrol.Backoff` with the window measured from the container's end). A restart for another reason than the container's
//! end (a changed definition, a resize, a request, a restart of all containers) leaves the back-off as it is. Another image or
//! other resources begin a new one, as upstream: they may have removed the cause.
//!
//! A new daemon continues with the stored counts. Counts that were not stored, because the daemon was killed or has no store, are
//! derived from the attempts: restarting the daemon does not reset a back-off. The stock kubelet forgets all of them at its restart
//! and restarts each container once more without a pause; if it is restarted often, no container waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use hostlet_base::{Backoff, BackoffPolicy, Moment};
use hostlet_pod::resources::Enforced;
use hostlet_runtime::cri::ContainerStatus;

/// First pause.
const INITIAL: Duration = Duration::from_secs(10);
/// A longer gap between two restarts resets the count.
const RESET_AFTER: Duration = Duration::from_secs(600);
/// The number of doublings after which the pause exceeds any permitted cap.
const DOUBLINGS: u32 = 16;

/// The back-offs of one pod's containers. They use wall-clock time because the runtime reports it for terminations.
#[derive(Clone, Debug)]
pub(super) struct CrashLoops {
    policy: BackoffPolicy,
    /// By name and hash: a container whose definition changed starts without a back-off.
    entries: HashMap<(Arc<str>, Option<u32>), Count>,
    /// The resources of its containers, by name.
    resources: HashMap<String, Enforced>,
    /// Back-off of re-creating the pod's sandbox; none if it was never re-created.
    sandbox: Option<Backoff<Timestamp>>,
}

/// Pauses between sandboxes of a pod: one that dies at once, or never gets an address, costs the runtime a network setup each
/// time. A sandbox that lasted is replaced at once.
const SANDBOXES: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(300),
};

/// The count as of a container's last restart.
#[derive(Clone, Copy, Debug)]
struct Count {
    /// The attempt that was followed by another.
    attempt: u32,
    /// None if the container was never restarted because of its end.
    backoff: Option<Backoff<Timestamp>>,
    /// The resources of the instance that followed; None if they were not stored.
    resources: Option<Enforced>,
}

/// The back-off of one container as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredCrashLoop {
    container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<u32>,
    attempt: u32,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    backoff: Option<StoredBackoff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resources: Option<Enforced>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredBackoff {
    delay_ms: u64,
    restarted: Timestamp,
}

impl CrashLoops {
    /// Restores the counts stored for a pod. `cap` is the longest pause (`crashLoopBackOff.maxContainerRestartPeriod`, 300 s);
    /// a longer one was stored under another configuration.
    pub(super) fn new(cap: Duration, stored: Vec<StoredCrashLoop>) -> Self {
        let policy = BackoffPolicy { initial: INITIAL, max: cap, reset_after: RESET_AFTER };
        let entries = stored.into_iter().map(|stored| {
            let backoff = stored.backoff.map(|stored| {
                let delay = Duration::from_millis(stored.delay_ms).min(cap);
                Backoff { delay, updated: stored.restarted }
            });
            let count = Count { attempt: stored.attempt, backoff, resources: stored.resources };
            ((stored.container.into(), stored.hash), count)
        });
        Self { policy, entries: entries.collect(), resources: HashMap::new(), sandbox: None }
    }

    /// Takes in the resources that a container has from now on.
    pub(super) fn set_resources(&mut self, container: &str, resources: Enforced) {
        if self.resources.get(container) != Some(&resources) {
            self.resources.insert(container.to_owned(), resources);
        }
    }

    /// The counts to store, in order.
    pub(super) fn stored(&self) -> Vec<StoredCrashLoop> {
        let stored = self.entries.iter().map(|((container, hash), count)| StoredCrashLoop {
            container: container.to_string(),
            hash: *hash,
            attempt: count.attempt,
            backoff: count.backoff.map(|backoff| StoredBackoff {
                delay_ms: u64::try_from(backoff.delay.as_millis()).unwrap_or(u64::MAX),
                restarted: backoff.updated,
            }),
            resources: count.resources,
        });
        let mut stored: Vec<_> = stored.collect();
        stored.sort_by(|a, b| (&a.container, a.hash).cmp(&(&b.container, b.hash)));
        stored
    }

    /// The pause in force for a terminated container, and its end; `None` if it may start at once.
    pub(super) fn in_force(&self, ended: &ContainerStatus, now: Timestamp) -> Option<(Duration, Timestamp)> {
        let entry = self.entry(ended)?;
        let left = entry.remaining(&self.policy, ended.finished_at?, now)?;
        Some((entry.delay, now.checked_add(left).ok()?))
    }

    /// The pause in force for a container whose probe failed now, and whose instance before it is this one. That instance ended
    /// before the count, so only the time since then shows that the running one lasted (upstream's `Backoff.GC`).
    pub(super) fn in_force_after(
        &self,
        before: &ContainerStatus,
        now: Timestamp,
    ) -> Option<(Duration, Timestamp)> {
        let lasted = self.entry(before)?.expired(&self.policy, now);
        self.in_force(before, now).filter(|_| !lasted)
    }

    /// Counts that the terminated container is restarted now.
    pub(super) fn restarted(&mut self, ended: &ContainerStatus, now: Timestamp) {
        let end = ended.finished_at.unwrap_or(now);
        let backoff = Backoff::next(self.entry(ended), &self.policy, end, now);
        self.set(ended, Some(backoff), now);
    }

    /// Counts that a container whose probe failed is restarted now, by the back-off of the instance before it.
    pub(super) fn restarted_after(
        &mut self,
        before: &ContainerStatus,
        failed: &ContainerStatus,
        now: Timestamp,
    ) {
        let backoff = Backoff::next(self.entry(before), &self.policy, now, now);
        self.set(failed, Some(backoff), now);
    }

    /// Notes that an instance is followed by another for a reason other than its end. The attempt rises, the back-off does not.
    pub(super) fn replaced(&mut self, instance: &ContainerStatus, now: Timestamp) {
        let backoff = self.entry(instance).filter(|backoff| !backoff.expired(&self.policy, now));
        self.set(instance, backoff, now);
    }

    /// Keeps the counts of other definitions only as long as they could be in force again.
    fn set(&mut self, instance: &ContainerStatus, backoff: Option<Backoff<Timestamp>>, now: Timestamp) {
        let policy = self.policy;
        let is_over = |count: &Count| count.backoff.is_none_or(|backoff| backoff.expired(&policy, now));
        self.entries.retain(|(name, _), count| *name != instance.name || !is_over(count));
        let resources = self.resources.get(&*instance.name).copied();
        let count = Count { attempt: instance.attempt, backoff, resources };
        self.entries.insert((instance.name.clone(), instance.hash), count);
    }

    /// The pause in force before the next sandbox, and its end; `None` if it may be created at once.
    pub(super) fn sandbox_in_force(&self, now: Timestamp) -> Option<(Duration, Timestamp)> {
        let sandbox = self.sandbox?;
        let left = sandbox.remaining(&SANDBOXES, sandbox.updated, now)?;
        Some((sandbox.delay, now.checked_add(left).ok()?))
    }

    /// Counts that a sandbox was created now in place of an earlier one.
    pub(super) fn sandbox_replaced(&mut self, now: Timestamp) {
        self.sandbox = Some(Backoff::next(self.sandbox, &SANDBOXES, now, now));
    }

    fn entry(&self, ended: &ContainerStatus) -> Option<Backoff<Timestamp>> {
        let of_container = self.entries.iter().filter(|((name, _), _)| *name == ended.name);
        // Also those of other definitions: they do not count for this one.
        let uncounted =
            of_container.map(|(_, count)| count.attempt.saturating_add(1)).max().unwrap_or_default();
        let resources = self.resources.get(&*ended.name);
        let is_resized = |count: &Count| count.resources.as_ref().zip(resources).is_some_and(|(a, b)| a != b);
        let count = self.entries.get(&(ended.name.clone(), ended.hash));
        match count.filter(|count| !is_resized(count)).and_then(|count| count.backoff) {
            Some(backoff) => Some(self.caught_up(uncounted, backoff, ended)),
            None => self.derived(uncounted, ended),
        }
    }

    /// Adds the restarts that were not counted, from that of attempt `first` on: attempt n + 1 is the restart of attempt n. Each of
    /// them waited out the pause in force at its time. If much more time passed than the sum of these pauses, a container ran long
    /// enough for a reset.
    fn caught_up(
        &self,
        first: u32,
        backoff: Backoff<Timestamp>,
        ended: &ContainerStatus,
    ) -> Backoff<Timestamp> {
        let missed = ended.attempt.saturating_sub(first).min(DOUBLINGS);
        if missed == 0 {
            // A restart is counted after the new container was created. A container that was created long after the count is
            // a later one with the same attempt number: the runtime lost the pod's containers, and this restart was not
            // counted.
            let is_later = Moment::since(ended.created_at, backoff.updated) > RESET_AFTER;
            let reset = Backoff { delay: INITIAL.min(self.policy.max), updated: ended.created_at };
            return if is_later { reset } else { backoff };
        }
        let (mut delay, mut waits) = (backoff.delay, Duration::ZERO);
        for _ in 0..missed {
            waits += delay;
            delay = delay.saturating_mul(2).min(self.policy.max);
        }
        if Moment::since(ended.created_at, backoff.updated) > RESET_AFTER + waits {
            delay = INITIAL.min(self.policy.max);
        }
        Backoff { delay, updated: ended.created_at }
    }

    /// The back-off of a container whose restarts were not counted, by this or an earlier daemon, if it was never reset: each attempt
    /// after `first` is a restart. So the first end that an adopting daemon sees waits as if that daemon had seen the earlier ones:
    /// not after attempt 0, 10 s after attempt 1.
    fn derived(&self, first: u32, ended: &ContainerStatus) -> Option<Backoff<Timestamp>> {
        let doublings = ended.attempt.checked_sub(first)?.checked_sub(1)?.min(DOUBLINGS);
        let delay = (INITIAL * (1 << doublings)).min(self.policy.max);
        Some(Backoff { delay, updated: ended.created_at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use hostlet_base::testing::at;
    use hostlet_pod::testing;

    const CAP: Duration = Duration::from_secs(300);

    fn ended(attempt: u32, created: i64, finished: i64) -> ContainerStatus {
        ContainerStatus {
            created_at: at(created),
            finished_at: Some(at(finished)),
            ..testing::exited("c", attempt, 1)
        }
    }

    #[test]
    fn pauses_double_from_ten_seconds_to_the_cap() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        let mut now = 1000;
        let mut pauses = Vec::new();
        for attempt in 0..8 {
            let status = ended(attempt, now, now + 1);
            match loops.in_force(&status, at(now + 1)) {
                Some((pause, over)) => {
                    assert_eq!(over, at(now + 1 + i64::try_from(pause.as_secs()).unwrap()));
                    assert!(loops.in_force(&status, over).is_none());
                    pauses.push(pause.as_secs());
                    now = over.as_second();
                }
                None => {
                    pauses.push(0);
                    now += 1;
                }
            }
            loops.restarted(&status, at(now));
        }
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_long_run_resets_the_count() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(4, 0, 1), at(10));
        let status = ended(5, 10, 10 + 601);
        assert!(loops.in_force(&status, at(611)).is_none());
        loops.restarted(&status, at(611));
        assert_eq!(loops.in_force(&ended(6, 611, 612), at(612)).unwrap().0, INITIAL);
    }

    #[test]
    fn a_clock_set_by_a_day_holds_no_container_back() {
        const DAY: i64 = 86_400;
        for step in [-DAY, DAY] {
            let mut loops = CrashLoops::new(CAP, Vec::new());
            loops.restarted(&ended(1, 10 * DAY, 10 * DAY + 1), at(10 * DAY + 1));
            let status = ended(2, 10 * DAY + 1, 10 * DAY + 2);
            assert_eq!(loops.in_force(&status, at(10 * DAY + 2)).unwrap().0.as_secs(), 20);
            let now = 10 * DAY + 2 + step;
            assert!(loops.in_force(&status, at(now)).is_none(), "the clock was set by {step} s");
            loops.restarted(&status, at(now));
            let again = ended(3, now, now + 1);
            assert_eq!(loops.in_force(&again, at(now + 1)).unwrap().0.as_secs(), 40);
        }
    }

    #[test]
    fn a_cap_below_ten_seconds_is_the_first_pause_too() {
        let mut loops = CrashLoops::new(Duration::from_secs(2), Vec::new());
        loops.restarted(&ended(0, 0, 1), at(1));
        assert_eq!(loops.in_force(&ended(1, 1, 2), at(2)).unwrap().0.as_secs(), 2);
    }

    #[test]
    fn a_changed_definition_starts_with_a_clean_slate() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(0, 0, 1), at(1));
        for attempt in 1..6 {
            loops.restarted(&ended(attempt, 1000, 1001), at(1001));
        }
        // Attempts go on counting.
        let changed = |attempt| ContainerStatus { hash: Some(7), ..ended(attempt, 2000, 2001) };
        assert!(loops.in_force(&changed(6), at(2001)).is_none());
        // The end of the old one was not counted: it was stopped for the change.
        assert_eq!(loops.in_force(&changed(7), at(2001)).unwrap().0, INITIAL);
        loops.restarted(&changed(6), at(2001));
        assert_eq!(loops.in_force(&changed(7), at(2001)).unwrap().0, INITIAL);
    }

    #[test]
    fn restarts_for_other_reasons_than_a_crash_do_not_count() {
        for is_new_daemon in [false, true] {
            let mut loops = CrashLoops::new(CAP, Vec::new());
            // Changed definitions, and then requests and resizes.
            for attempt in 0..5 {
                loops.replaced(
                    &ContainerStatus { hash: Some(attempt), ..ended(attempt, 1000, 1001) },
                    at(1001),
                );
            }
            for attempt in 5..9 {
                loops.replaced(&ended(attempt, 1000, 1001), at(1001));
            }
            let mut loops = if is_new_daemon { CrashLoops::new(CAP, loops.stored()) } else { loops };
            assert_eq!(loops.in_force(&ended(9, 1001, 1002), at(1002)), None, "the first crash");
            loops.restarted(&ended(9, 1001, 1002), at(1002));
            assert_eq!(loops.in_force(&ended(10, 1002, 1003), at(1003)).unwrap().0, INITIAL, "the second");
            loops.replaced(&ended(10, 1002, 1003), at(1003));
            assert_eq!(loops.in_force(&ended(11, 1003, 1004), at(1004)).unwrap().0, INITIAL, "as before");
        }
    }

    #[test]
    fn restarts_because_of_a_probe_are_reset_by_time() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        let instance = |attempt| ended(attempt, 1000, 1001);
        for attempt in 0..5 {
            loops.restarted_after(&instance(attempt), &instance(attempt + 1), at(1001));
        }
        let before = instance(5);
        assert!(loops.in_force_after(&before, at(1002)).is_some());
        assert_eq!(loops.in_force_after(&before, at(1001 + 601)), None);
        loops.restarted_after(&before, &instance(6), at(1001 + 601));
        let next = ended(6, 1602, 1605);
        assert_eq!(loops.in_force_after(&next, at(1606)).unwrap().0, INITIAL);
    }

    #[test]
    fn restarts_because_of_a_probe_count_once_among_crashes() {
        for is_new_daemon in [false, true] {
            let mut loops = CrashLoops::new(CAP, Vec::new());
            loops.restarted(&ended(0, 0, 1), at(1));
            // Attempt 1 fails its probe, attempt 2 crashes.
            loops.restarted_after(&ended(0, 0, 1), &ended(1, 1, 2), at(2));
            let mut loops = if is_new_daemon { CrashLoops::new(CAP, loops.stored()) } else { loops };
            assert_eq!(loops.in_force(&ended(2, 2, 3), at(3)).unwrap().0, 2 * INITIAL);
            loops.restarted(&ended(2, 2, 3), at(23));
            assert_eq!(loops.in_force(&ended(3, 23, 24), at(24)).unwrap().0, 4 * INITIAL);
        }
    }

    #[test]
    fn attempts_of_another_definition_do_not_count() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        for attempt in 0..3 {
            loops.restarted(&ended(attempt, 1000, 1001), at(1001));
        }
        for attempt in 3..6 {
            let other = ContainerStatus { hash: Some(7), ..ended(attempt, 1001, 1002) };
            loops.replaced(&other, at(1002));
        }
        assert_eq!(loops.in_force(&ended(6, 1002, 1003), at(1003)).unwrap().0, 4 * INITIAL, "as before");
    }

    #[test]
    fn other_resources_begin_a_new_back_off() {
        let with = |memory_limit| Enforced { memory_limit, ..Enforced::default() };
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.set_resources("c", with(1 << 20));
        for attempt in 0..5 {
            loops.restarted(&ended(attempt, 1000, 1001), at(1001));
        }
        assert!(loops.in_force(&ended(5, 1001, 1002), at(1003)).is_some());
        for is_new_daemon in [false, true] {
            let stored = loops.stored();
            let mut loops = if is_new_daemon { CrashLoops::new(CAP, stored) } else { loops.clone() };
            assert!(loops.in_force(&ended(5, 1001, 1002), at(1003)).is_some(), "those of before");
            loops.set_resources("c", with(1 << 30));
            assert_eq!(loops.in_force(&ended(5, 1001, 1002), at(1003)), None);
            loops.restarted(&ended(5, 1001, 1002), at(1003));
            assert_eq!(loops.in_force(&ended(6, 1003, 1004), at(1004)).unwrap().0, INITIAL);
        }
    }

    #[test]
    fn counts_of_earlier_definitions_are_forgotten() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        for attempt in 0..100 {
            let now = i64::from(attempt) * 1000;
            loops.restarted(&ContainerStatus { hash: Some(attempt), ..ended(attempt, now, now) }, at(now));
        }
        assert_eq!(loops.entries.len(), 1);
    }

    #[test]
    fn counts_stored_by_an_earlier_version_are_read() {
        let text =
            r#"[{"container": "c", "attempt": 3, "delayMs": 40000, "restarted": "1970-01-01T00:00:10Z"}]"#;
        let loops = CrashLoops::new(CAP, serde_json::from_str(text).unwrap());
        assert_eq!(loops.in_force(&ended(4, 10, 12), at(12)).unwrap().0.as_secs(), 40);
        assert_eq!(
            serde_json::to_value(loops.stored()).unwrap(),
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
    }

    #[test]
    fn a_long_run_is_remembered_where_the_attempt_would_mislead() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(6, 0, 1), at(10));
        loops.restarted(&ended(7, 10, 10 + 601), at(611));
        let next = CrashLoops::new(CAP, loops.stored());
        let status = ended(8, 611, 612);
        assert_eq!(next.in_force(&status, at(612)), Some((INITIAL, at(622))));
        let without = CrashLoops::new(CAP, Vec::new());
        assert_eq!(without.in_force(&status, at(612)).unwrap().0, CAP);
    }

    #[test]
    fn a_count_that_was_lost_with_the_runtimes_containers_is_no_way_out() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(0, 0, 1), at(1));
        // The containers vanished, attempts started over, and the later count was not stored.
        let next = CrashLoops::new(CAP, loops.stored());
        assert_eq!(next.in_force(&ended(1, 5000, 5001), at(5002)), Some((INITIAL, at(5011))));
    }

    #[test]
    fn a_stored_pause_is_no_longer_than_the_cap_of_today() {
        let mut loops = CrashLoops::new(CAP, Vec::new());
        loops.restarted(&ended(9, 0, 1), at(10));
        let next = CrashLoops::new(Duration::from_secs(20), loops.stored());
        assert_eq!(next.in_force(&ended(10, 10, 12), at(12)).unwrap().0.as_secs(), 20);
    }

    #[test]
    fn a_clock_that_was_set_while_no_daemon_ran_prolongs_nothing() {
        const DAY: i64 = 86_400;
        for step in [-DAY, DAY] {
            let mut loops = CrashLoops::new(CAP, Vec::new());
            loops.restarted(&ended(1, 10 * DAY, 10 * DAY + 1), at(10 * DAY + 1));
            let next = CrashLoops::new(CAP, loops.stored());
            let before = ended(2, 10 * DAY + 1, 10 * DAY + 2);
            assert!(next.in_force(&before, at(10 * DAY + 2 + step)).is_none(), "{step}");
            let now = 10 * DAY + 5 + step;
            let after = ended(2, 10 * DAY + 1, now);
            let pause = next.in_force(&after, at(now)).map(|(pause, _)| pause.as_secs());
            assert!(pause.is_none_or(|pause| pause <= 20), "{step}: {pause:?}");
        }
    }

    proptest! {
        /// A daemon that is killed between any two crashes continues exactly as without the kill, also when long runs reset
        /// the count, and also when what it stored last did not get to the disk and the loop was unbroken since.
        #[test]
        fn what_was_stored_goes_on_exactly(
            runs in proptest::collection::vec(prop_oneof![4 => 0i64..60, 1 => 590i64..700], 1..12),
            killed_after in 0usize..12,
            lost in 0usize..3,
        ) {
            let mut loops = CrashLoops::new(CAP, Vec::new());
            let mut other = loops.clone();
            let mut written = Vec::new();
            let mut now = 1000;
            for (attempt, run) in runs.iter().enumerate() {
                if attempt == killed_after {
                    let known = written.len().saturating_sub(lost);
                    let unbroken = runs[known..attempt].iter().all(|run| *run < 60);
                    let stored = if unbroken { written[..known].last() } else { written.last() };
                    other = CrashLoops::new(CAP, stored.cloned().unwrap_or_default());
                }
                let status = ended(u32::try_from(attempt).unwrap(), now, now + run);
                let one = loops.in_force(&status, at(now + run));
                prop_assert_eq!(one, other.in_force(&status, at(now + run)));
                now = one.map_or(now + run, |(_, over)| over.as_second());
                loops.restarted(&status, at(now));
                other.restarted(&status, at(now));
                written.push(loops.stored());
            }
        }

        /// A daemon restarted between any two crashes of an unbroken loop counts on as its predecessor would have.
        #[test]
        fn a_new_daemon_inherits_the_back_off(crashes in 1u32..9, restart_after in 0u32..9, run in 0i64..60) {
            let mut loops = CrashLoops::new(CAP, Vec::new());
            let mut fresh = CrashLoops::new(CAP, Vec::new());
            let mut now = 1000;
            for attempt in 0..crashes {
                if attempt == restart_after {
                    fresh = CrashLoops::new(CAP, Vec::new());
                }
                let status = ended(attempt, now, now + run);
                let one = loops.in_force(&status, at(now + run));
                let other = fresh.in_force(&status, at(now + run));
                prop_assert_eq!(one, other);
                now = one.map_or(now + run, |(_, over)| over.as_second());
                loops.restarted(&status, at(now));
                fresh.restarted(&status, at(now));
            }
        }
    }
}
