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

use super::instance_times::InstanceTimes;

/// First pause.
const INITIAL: Duration = Duration::from_secs(10);
/// A longer gap between two restarts resets the count.
const RESET_AFTER: Duration = Duration::from_secs(600);
/// The number of doublings after which the pause exceeds any permitted cap.
const DOUBLINGS: u32 = 16;

/// The back-offs of one pod's containers, by a clock that nobody sets ([`hostlet_base::WallClock::steady`]).
#[derive(Clone, Debug)]
pub(super) struct CrashLoops {
    policy: BackoffPolicy,
    /// By name and hash: a container whose definition changed starts without a back-off.
    entries: HashMap<(Arc<str>, Option<u32>), Count>,
    /// The resources of its containers, by name.
    resources: HashMap<String, Enforced>,
    /// Back-off of re-creating the pod's sandbox; none if it was never re-created.
    sandbox: Option<Backoff<Timestamp>>,
    /// When instances were created and terminated.
    times: InstanceTimes,
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
        Self {
            policy,
            entries: entries.collect(),
            resources: HashMap::new(),
            sandbox: None,
            times: InstanceTimes::default(),
        }
    }

    /// Takes in the instances that the runtime has, at this time of the wall clock and of the steady one.
    pub(super) fn observe(&mut self, instances: &[ContainerStatus], wall: Timestamp, steady: Timestamp) {
        self.times.observe(instances, wall, steady);
    }

    /// A time of these back-offs as the wall clock shows it.
    pub(super) fn wall(&self, steady: Timestamp) -> Timestamp {
        self.times.wall(steady)
    }

    /// Takes in the resources that a container has from now on.
    pub(super) fn set_resources(&mut self, container: &str, resources: Enforced) {
        if self.resources.get(container) != Some(&resources) {
            self.resources.insert(container.to_owned(), resources);
        }
    }

    /// The counts to store, in order, with times of the wall clock.
    pub(super) fn stored(&self) -> Vec<StoredCrashLoop> {
        let stored = self.entries.iter().map(|((container, hash), count)| StoredCrashLoop {
            container: container.to_string(),
            hash: *hash,
            attempt: count.attempt,
            backoff: count.backoff.map(|backoff| StoredBackoff {
                delay_ms: u64::try_from(backoff.delay.as_millis()).unwrap_or(u64::MAX),
                restarted: self.times.wall(backoff.updated),
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
        let left = entry.remaining(&self.policy, self.times.finished(ended)?, now)?;
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
        let end = self.times.finished(ended).unwrap_or(now);
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
        let created = self.times.created(ended);
        let missed = ended.attempt.saturating_sub(first).min(DOUBLINGS);
        if missed == 0 {
            // A restart is counted after the new container was created. A container that was created long after the count is
            // a later one with the same attempt number: the runtime lost the pod's containers, and this restart was not
            // counted.
            let is_later = Moment::since(created, backoff.updated) > RESET_AFTER;
            let reset = Backoff { delay: INITIAL.min(self.policy.max), updated: created };
            return if is_later { reset } else { backoff };
        }
        let (mut delay, mut waits) = (backoff.delay, Duration::ZERO);
        for _ in 0..missed {
            waits += delay;
            delay = delay.saturating_mul(2).min(self.policy.max);
        }
        if Moment::since(created, backoff.updated) > RESET_AFTER + waits {
            delay = INITIAL.min(self.policy.max);
        }
        Backoff { delay, updated: created }
    }

    /// The back-off of a container whose restarts were not counted, by this or an earlier daemon, if it was never reset: each attempt
    /// after `first` is a restart. So the first end that an adopting daemon sees waits as if that daemon had seen the earlier ones:
    /// not after attempt 0, 10 s after attempt 1.
    fn derived(&self, first: u32, ended: &ContainerStatus) -> Option<Backoff<Timestamp>> {
        let doublings = ended.attempt.checked_sub(first)?.checked_sub(1)?.min(DOUBLINGS);
        let delay = (INITIAL * (1 << doublings)).min(self.policy.max);
        Some(Backoff { delay, updated: self.times.created(ended) })
    }
}

#[cfg(test)]
#[path = "crash_loop_tests.rs"]
mod tests;
