//! When each probe runs, for all pods, and what their answers amount to. Pure: the task performs the runs.
//!
//! A probe first runs when its instance was seen running and its initial delay has passed, then once per period; one that takes longer than
//! its period runs again at once. While the startup probe of an instance has not succeeded, its other probes wait, and they begin in the
//! same moment. Upstream's probes tick on their own from the pod's admission on, so a container becomes ready up to a period later.
//!
//! The first run often comes before the program of a new instance listens. Until its readiness probe succeeds, it is therefore repeated
//! sooner, in growing distances up to a period. Upstream likewise repeats it whenever it updates the status of a pod that is not ready.
//!
//! Periodic runs are due on a grid, so that the probes of a node with many pods share wake-ups and writes to the runtime.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{ContainerId, Moment, PodUid};
use hostlet_pod::{AdmittedPod, ContainerProbes, ContainerRef, PodProbes, ProbeKind};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use tokio::time::Instant;

use super::state::{ProbeState, Thresholds, Verdict};
use super::target::{SeenInstance, SeenPod};

/// A new daemon probes instances that it found running within this time, so that not all are probed at once.
const SPREAD: Duration = Duration::from_secs(2);

/// After this time the readiness probe of a new instance first runs again; each further time is twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// The grid of periodic runs: each is late by at most this, once. Periods are whole seconds, so a probe stays on its line.
const GRID: Duration = Duration::from_millis(25);

/// The time on the clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) wall: Timestamp,
    /// Since the boot of the host.
    pub(super) uptime: Duration,
}

/// How long an instance had run when that was first seen. The wall clock is asked only then: it may be set afterwards.
#[derive(Clone, Copy, Debug)]
struct Running {
    seen: Instant,
    age: Duration,
}

impl Running {
    /// An instance that runs `since` then by the runtime's clock, and at most for `longest`.
    fn new(since: Timestamp, longest: Duration, now: Now) -> Self {
        Self { seen: now.instant, age: Moment::since(now.wall, since).min(longest) }
    }

    fn duration(self, now: Instant) -> Duration {
        self.age + now.saturating_duration_since(self.seen)
    }
}

/// Names a probe of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ProbeKey(u64);

#[cfg(test)]
impl ProbeKey {
    /// Any one.
    pub(super) const FIRST: Self = Self(1);
}

/// A probe to run now.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) key: ProbeKey,
    pub(super) kind: ProbeKind,
    pub(super) pod: Arc<AdmittedPod>,
    pub(super) container: ContainerRef,
    pub(super) id: ContainerId,
    /// The pod's first address; empty without one.
    pub(super) ip: String,
    /// It is repeated before its period has passed. Another failure is no news.
    pub(super) is_early: bool,
}

/// What follows from a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finish {
    /// Nothing: its instance was stopped or replaced meanwhile.
    Moot,
    /// The answer counts.
    Counted {
        /// It failed, and the run before did not.
        begins_to_fail: bool,
        /// The result of the probe changed to this.
        result: Option<Verdict>,
    },
}

#[derive(Debug)]
struct Slot {
    key: ProbeKey,
    kind: ProbeKind,
    state: ProbeState,
    /// When it runs next; for one that runs, when that run was due.
    due: Option<Instant>,
    is_running: bool,
    /// The part of its first period to wait, so that probes that began together do not stay together.
    first_wait: f64,
    /// When it is repeated after a failure, if sooner than after its period.
    retry: Option<Duration>,
    /// Its next run is such a repetition.
    is_early: bool,
}

#[derive(Debug)]
struct Instance {
    seen: SeenInstance,
    /// None while it does not run.
    running: Option<Running>,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Watched {
    pod: Arc<AdmittedPod>,
    ip: String,
    is_ending: bool,
    instances: Vec<Instance>,
    /// When this was last seen.
    seen: Instant,
}

/// The schedule of all probes.
#[derive(Debug)]
pub(super) struct Schedule {
    pods: HashMap<PodUid, Watched>,
    owners: HashMap<ProbeKey, PodUid>,
    /// An entry is outdated unless its probe is due at that time.
    due: BinaryHeap<Reverse<(Instant, ProbeKey)>>,
    last_key: u64,
    running: usize,
    limit: usize,
    /// When the daemon began.
    began: Instant,
}

impl Schedule {
    /// An empty schedule of a daemon that began at `began`, with at most `limit` probes running.
    pub(super) fn new(limit: usize, began: Instant) -> Self {
        Self {
            pods: HashMap::new(),
            owners: HashMap::new(),
            due: BinaryHeap::new(),
            last_key: 0,
            running: 0,
            limit,
            began,
        }
    }

    /// Takes in what is seen of a pod. `known` are earlier findings; `chance` gives numbers from 0 to 1.
    pub(super) fn see(
        &mut self,
        seen: SeenPod,
        known: &PodProbes,
        now: Now,
        mut chance: impl FnMut() -> f64,
    ) {
        let SeenPod { pod, ip, is_ending, instances } = seen;
        let uid = pod.reference.uid.clone();
        let old = self.pods.remove(&uid);
        // What runs now and did not then has started since.
        let longest = old.as_ref().map_or(now.uptime, |old| now.instant.saturating_duration_since(old.seen));
        let mut old = old.map(|watched| watched.instances).unwrap_or_default();
        let mut present = Vec::with_capacity(instances.len());
        for seen in instances {
            let same = old.iter().position(|old| old.seen.id == seen.id);
            let same = same.map(|index| old.swap_remove(index));
            let (was_running, slots) = same.map_or((None, Vec::new()), |same| (same.running, same.slots));
            let new = |since| Running::new(since, longest, now);
            let running = seen.running_since.map(|since| was_running.unwrap_or_else(|| new(since)));
            present.push(self.instance(&pod, Instance { seen, running, slots }, known, now, &mut chance));
        }
        for slot in old.iter().flat_map(|gone| &gone.slots) {
            self.owners.remove(&slot.key);
        }
        let mut watched = Watched { pod, ip, is_ending, instances: present, seen: now.instant };
        self.plan_runs(&mut watched, now);
        self.pods.insert(uid, watched);
    }

    /// An instance with the probes that its container has now: those that it had go on, also if the definition was edited.
    fn instance(
        &mut self,
        pod: &AdmittedPod,
        present: Instance,
        known: &PodProbes,
        now: Now,
        chance: &mut impl FnMut() -> f64,
    ) -> Instance {
        let Instance { seen, running, mut slots } = present;
        let spec = pod.container(&seen.container).map(|container| container.spec);
        let has = |kind: ProbeKind| spec.is_some_and(|spec| kind.of(spec).is_some());
        for gone in slots.extract_if(.., |slot| !has(slot.kind)) {
            self.owners.remove(&gone.key);
        }
        let since_begin = now.instant.saturating_duration_since(self.began);
        let is_adopted = running.is_some_and(|running| running.duration(now.instant) > since_begin);
        let shown = ContainerProbes { started: seen.started, ready: seen.ready, failed: None };
        // Only for an instance that an earlier daemon probed may its status say more.
        let earlier = known.0.get(&seen.id).copied().or(is_adopted.then_some(shown)).unwrap_or_default();
        for kind in ProbeKind::ALL.into_iter().filter(|kind| has(*kind)) {
            if slots.iter().any(|slot| slot.kind == kind) {
                continue;
            }
            let success = |holds: bool| holds.then_some(Verdict::Success);
            let result = match kind {
                _ if earlier.failed == Some(kind) => Some(Verdict::Failure),
                ProbeKind::Startup => success(earlier.started),
                ProbeKind::Liveness => None,
                ProbeKind::Readiness => success(earlier.ready),
            };
            self.last_key += 1;
            let key = ProbeKey(self.last_key);
            self.owners.insert(key, pod.reference.uid.clone());
            let first_wait = if is_adopted { 0.5 + chance() / 2.0 } else { 1.0 };
            let is_new = kind == ProbeKind::Readiness && !is_adopted && result.is_none();
            slots.push(Slot {
                key,
                kind,
                state: ProbeState::new(kind, result),
                due: None,
                is_running: false,
                first_wait,
                retry: is_new.then_some(FIRST_RETRY),
                is_early: false,
            });
        }
        Instance { seen, running, slots }
    }

    /// Schedules the probes of a pod that may run now, and unschedules the others.
    fn plan_runs(&mut self, watched: &mut Watched, now: Now) {
        for instance in &mut watched.instances {
            let has_started = instance.has_started();
            let Some(running) = instance.running else {
                instance.slots.iter_mut().for_each(|slot| slot.due = None);
                continue;
            };
            let Some(container) = watched.pod.container(&instance.seen.container) else { continue };
            for slot in &mut instance.slots {
                let may_run = !slot.state.is_final()
                    && match slot.kind {
                        ProbeKind::Startup => !watched.is_ending,
                        ProbeKind::Liveness => has_started && !watched.is_ending,
                        ProbeKind::Readiness => has_started,
                    };
                if !may_run {
                    slot.due = None;
                } else if slot.due.is_none() && !slot.is_running {
                    let delay = initial_delay(container.spec, slot.kind);
                    let spread = match slot.first_wait < 1.0 {
                        // From 0 to 1.
                        true => {
                            SPREAD.min(period(container.spec, slot.kind)).mul_f64(2.0 * slot.first_wait - 1.0)
                        }
                        false => Duration::ZERO,
                    };
                    let due = now.instant + delay.saturating_sub(running.duration(now.instant)).max(spread);
                    slot.due = Some(due);
                    self.due.push(Reverse((due, slot.key)));
                }
            }
        }
    }

    pub(super) fn forget(&mut self, pod: &PodUid) {
        let gone = self.pods.remove(pod).into_iter().flat_map(|watched| watched.instances);
        for slot in gone.flat_map(|instance| instance.slots) {
            self.owners.remove(&slot.key);
        }
    }

    /// When the next run is due; none while as many run as may.
    pub(super) fn next_due(&mut self) -> Option<Instant> {
        while self.running < self.limit
            && let Some(Reverse((due, key))) = self.due.peek().copied()
        {
            if self.slot(key).is_some_and(|slot| slot.due == Some(due) && !slot.is_running) {
                return Some(due);
            }
            self.due.pop();
        }
        None
    }

    /// The next run that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Run> {
        let due = self.next_due().filter(|due| *due <= now)?;
        let Reverse((_, key)) = self.due.pop()?;
        let watched = self.pods.get_mut(self.owners.get(&key)?)?;
        let instance = watched.instances.iter_mut().find(|i| i.slots.iter().any(|slot| slot.key == key))?;
        let slot = instance.slots.iter_mut().find(|slot| slot.key == key && slot.due == Some(due))?;
        slot.is_running = true;
        self.running += 1;
        Some(Run {
            key,
            kind: slot.kind,
            pod: watched.pod.clone(),
            container: instance.seen.container.clone(),
            id: instance.seen.id.clone(),
            ip: watched.ip.clone(),
            is_early: slot.is_early,
        })
    }

    /// A run ended, with this verdict; none if the probe could not be run, which counts for nothing.
    pub(super) fn finished(&mut self, key: ProbeKey, verdict: Option<Verdict>, now: Now) -> Finish {
        self.running = self.running.saturating_sub(1);
        let Some(uid) = self.owners.get(&key).cloned() else { return Finish::Moot };
        let Some(mut watched) = self.pods.remove(&uid) else { return Finish::Moot };
        let finish = self.count(&mut watched, key, verdict, now);
        self.plan_runs(&mut watched, now);
        self.pods.insert(uid, watched);
        finish
    }

    fn count(&mut self, watched: &mut Watched, key: ProbeKey, verdict: Option<Verdict>, now: Now) -> Finish {
        for Instance { seen, slots, .. } in &mut watched.instances {
            let Some(slot) = slots.iter_mut().find(|slot| slot.key == key) else { continue };
            slot.is_running = false;
            // Unset when it may no longer run.
            let Some(was_due) = slot.due.take() else { return Finish::Moot };
            let Some(container) = watched.pod.container(&seen.container) else { return Finish::Moot };
            let wait =
                period(container.spec, slot.kind).mul_f64(std::mem::replace(&mut slot.first_wait, 1.0));
            let may_retry = verdict != Some(Verdict::Success) && !watched.is_ending;
            let retry = slot.retry.take().filter(|retry| may_retry && *retry < wait);
            slot.is_early = retry.is_some();
            slot.retry = retry.map(|retry| retry * 2);
            let due = retry.map_or_else(|| on_grid(was_due + wait, self.began), |retry| was_due + retry);
            let due = due.max(now.instant);
            slot.due = Some(due);
            self.due.push(Reverse((due, key)));
            let Some(verdict) = verdict else {
                return Finish::Counted { begins_to_fail: false, result: None };
            };
            let begins_to_fail = verdict == Verdict::Failure && !slot.state.fails();
            let probe = slot.kind.of(container.spec);
            let changed = probe.is_some_and(|probe| slot.state.record(verdict, Thresholds::of(probe)));
            return Finish::Counted { begins_to_fail, result: slot.state.result().filter(|_| changed) };
        }
        Finish::Moot
    }

    /// The findings for a pod.
    pub(super) fn found(&self, pod: &PodUid) -> PodProbes {
        let instances = self.pods.get(pod).into_iter().flat_map(|watched| &watched.instances);
        PodProbes(instances.map(|instance| (instance.seen.id.clone(), instance.found())).collect())
    }

    fn slot(&self, key: ProbeKey) -> Option<&Slot> {
        let watched = self.pods.get(self.owners.get(&key)?)?;
        watched.instances.iter().flat_map(|instance| &instance.slots).find(|slot| slot.key == key)
    }
}

/// The next line of the grid from `time` on, or `time` itself.
fn on_grid(time: Instant, origin: Instant) -> Instant {
    let past = time.saturating_duration_since(origin).as_nanos() % GRID.as_nanos();
    let wait = (GRID.as_nanos() - past) % GRID.as_nanos();
    time + Duration::from_nanos(u64::try_from(wait).unwrap_or_default())
}

impl Instance {
    fn result(&self, kind: ProbeKind) -> Option<Verdict> {
        self.slots.iter().find(|slot| slot.kind == kind).and_then(|slot| slot.state.result())
    }

    fn has_started(&self) -> bool {
        self.slots.iter().all(|slot| slot.kind != ProbeKind::Startup)
            || self.result(ProbeKind::Startup) == Some(Verdict::Success)
    }

    fn found(&self) -> ContainerProbes {
        let has_failed = |kind: &ProbeKind| self.result(*kind) == Some(Verdict::Failure);
        ContainerProbes {
            started: self.result(ProbeKind::Startup) == Some(Verdict::Success),
            ready: self.result(ProbeKind::Readiness) == Some(Verdict::Success)
                && self.seen.running_since.is_some(),
            failed: [ProbeKind::Liveness, ProbeKind::Startup].into_iter().find(has_failed),
        }
    }
}

fn initial_delay(container: &Container, kind: ProbeKind) -> Duration {
    seconds(kind.of(container).and_then(|probe| probe.initial_delay_seconds), 0)
}

fn period(container: &Container, kind: ProbeKind) -> Duration {
    seconds(kind.of(container).and_then(|probe| probe.period_seconds), 10).max(Duration::from_secs(1))
}

fn seconds(number: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(default))
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
