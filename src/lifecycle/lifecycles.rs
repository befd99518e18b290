//! The lives of all pods, and what couples them: static pods of one full name run one after the other. Pure: `now` and
//! chance come in as arguments, what to do goes out as effects.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::state::{LifecyclePhase, PodLifecycle, PodUpdate, Transition, UpdateSubject};
use crate::pod::AdmittedPod;
use crate::types::{PodRef, PodUid};
use crate::worker::{Outcome, Retry, Work};

/// Pause before failed work is tried again.
const BACK_OFF: Duration = Duration::from_secs(10);
/// Pause before work is tried again whose cause of failure tends to pass.
const BACK_OFF_TRANSIENT: Duration = Duration::from_secs(1);
/// Every pause is lengthened by up to this share of itself, so that pods do not march in step.
const JITTER: f64 = 0.5;

/// What to do about a pod's worker.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Give this work to the pod's worker, starting one if there is none.
    Run(PodUid, Work),
    /// End the work under way early.
    Cancel(PodUid),
    /// The pod has finished; its worker may end.
    Stop(PodUid),
}

/// What others see of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleView {
    /// Not started.
    Waiting,
    /// Its containers are made to match its spec.
    Syncing,
    /// Its containers are being stopped.
    Terminating,
    /// No container runs; it is being cleaned up.
    Terminated,
    /// Nothing is left to do.
    Finished,
}

impl From<&LifecyclePhase> for LifecycleView {
    fn from(stage: &LifecyclePhase) -> Self {
        match stage {
            LifecyclePhase::Waiting => Self::Waiting,
            LifecyclePhase::Syncing => Self::Syncing,
            LifecyclePhase::Terminating { .. } => Self::Terminating,
            LifecyclePhase::Terminated { .. } => Self::Terminated,
            LifecyclePhase::Finished => Self::Finished,
        }
    }
}

/// What the worker of a pod is doing.
#[derive(Debug)]
enum Worker {
    /// Nothing, until this moment or an update.
    Idle { due: Option<Instant> },
    /// This work; with `again`, the next work starts as soon as it ends.
    Busy { work: Work, again: bool },
}

#[derive(Debug)]
struct Entry {
    life: PodLifecycle,
    worker: Worker,
}

/// The lives of all pods on this node.
#[derive(Debug)]
pub struct PodLifecycles {
    /// In order, so that whoever is told of several pods at once tells of them in the same order in every run.
    entries: BTreeMap<PodUid, Entry>,
    /// Which static pod of a full name runs.
    static_running: HashMap<String, PodUid>,
    /// Which static pods of a full name come next, in order of arrival.
    static_waiting: HashMap<String, VecDeque<PodUid>>,
    /// Pods taken over that nobody has said anything about yet.
    unclaimed: HashSet<PodUid>,
    resync: Duration,
}

impl PodLifecycles {
    /// No pods. `resync` is the pause after which an unchanged pod is looked at again (`syncFrequency`).
    pub fn new(resync: Duration) -> Self {
        Self {
            entries: BTreeMap::new(),
            static_running: HashMap::new(),
            static_waiting: HashMap::new(),
            unclaimed: HashSet::new(),
            resync,
        }
    }

    /// Where a pod is in its life; `None` for a pod that is not known.
    pub fn stage(&self, uid: &PodUid) -> Option<LifecycleView> {
        self.entries.get(uid).map(|e| e.life.stage().into())
    }

    /// The pods known, with where they are in their lives.
    pub fn all(&self) -> impl Iterator<Item = (&PodRef, LifecycleView)> {
        self.entries.values().map(|e| (e.life.pod(), e.life.stage().into()))
    }

    /// When a pod's next work begins; none while it is under way or none is due.
    pub fn due_of(&self, uid: &PodUid) -> Option<Instant> {
        match self.entries.get(uid)?.worker {
            Worker::Idle { due } => due,
            Worker::Busy { .. } => None,
        }
    }

    /// Takes over a pod of the daemon before this one, in the order they were admitted, before any update. It may run
    /// still, so it holds its full name. Nothing is done about it until an update says whether it is wanted.
    pub fn take_over(&mut self, spec: Arc<AdmittedPod>) {
        let pod = spec.reference.clone();
        let (uid, name) = (pod.uid.clone(), pod.full_name());
        self.adopt(&UpdateSubject::Spec(spec), pod);
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.life.may_run();
        }
        if !self.static_running.contains_key(&name) && self.static_waiting.contains_key(&name) {
            self.static_waiting.remove(&name);
            self.static_running.insert(name, uid.clone());
        }
        self.unclaimed.insert(uid);
    }

    /// The runtime has something of the pod: should it be ended before it was started here, it is to be stopped, and its
    /// successor waits for that. A pod that is not known is ignored.
    pub fn seen_in_runtime(&mut self, uid: &PodUid) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.life.may_run();
        }
    }

    /// Takes in an update of a pod.
    pub fn update(&mut self, update: PodUpdate) -> Vec<Effect> {
        let pod = match &update.subject {
            UpdateSubject::Spec(spec) => spec.reference.clone(),
            UpdateSubject::Runtime { pod, .. } => pod.clone(),
        };
        let uid = pod.uid.clone();
        if !self.entries.contains_key(&uid) {
            if let UpdateSubject::Runtime { .. } = &update.subject
                && update.kind != super::state::UpdateKind::Kill
            {
                return Vec::new();
            }
            self.adopt(&update.subject, pod);
        }
        self.unclaimed.remove(&uid);
        let Some(entry) = self.entries.get_mut(&uid) else { return Vec::new() };
        let had_finished = matches!(entry.life.stage(), LifecyclePhase::Finished);
        let step = entry.life.update(update);
        let mut effects = self.follow(&uid, step);
        if !had_finished {
            // A pod that finished without ever having started, e.g. one removed while it waited.
            effects.extend(self.settle(&uid));
        }
        effects
    }

    fn adopt(&mut self, subject: &UpdateSubject, pod: PodRef) {
        if let UpdateSubject::Spec(spec) = subject
            && spec.is_static
        {
            self.static_waiting.entry(pod.full_name()).or_default().push_back(pod.uid.clone());
        }
        let entry =
            Entry { life: PodLifecycle::new(subject, pod.clone()), worker: Worker::Idle { due: None } };
        self.entries.insert(pod.uid, entry);
    }

    /// Something of the pod changed in the runtime: its next work starts now. A pod that is not known is ignored.
    pub fn wake(&mut self, uid: &PodUid) -> Vec<Effect> {
        self.follow(uid, Transition::Advance)
    }

    /// Starts the work that is due.
    pub fn due(&mut self, now: Instant) -> Vec<Effect> {
        let due: Vec<PodUid> = self
            .entries
            .iter()
            .filter(|(_, e)| matches!(e.worker, Worker::Idle { due: Some(due) } if due <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        due.iter().flat_map(|uid| self.follow(uid, Transition::Advance)).collect()
    }

    /// When work is due next.
    pub fn next_due(&self) -> Option<Instant> {
        let due = self.entries.values().filter_map(|e| match e.worker {
            Worker::Idle { due } => due,
            Worker::Busy { .. } => None,
        });
        due.min()
    }

    /// Takes in how the work of a pod's worker ended. `chance` in `[0, 1)` lengthens the pause before the next look.
    pub fn completed(&mut self, uid: &PodUid, outcome: Outcome, now: Instant, chance: f64) -> Vec<Effect> {
        let Some(entry) = self.entries.get_mut(uid) else { return Vec::new() };
        let Worker::Busy { work, again } = &entry.worker else { return Vec::new() };
        let again = *again;
        let step = entry.life.completed(work, outcome);
        let jittered = |pause: Duration| now + pause.mul_f64(1.0 + JITTER * chance);
        let due = match outcome {
            Outcome::Done { due } => {
                Some(due.map_or(jittered(self.resync), |d| d.min(jittered(self.resync))))
            }
            Outcome::PodEnded | Outcome::Cancelled => Some(now),
            Outcome::Failed(Retry::Soon) => Some(jittered(BACK_OFF_TRANSIENT)),
            Outcome::Failed(Retry::BackOff) => Some(jittered(BACK_OFF)),
        };
        entry.worker = Worker::Idle { due };
        let mut effects = self.follow(uid, if again { Transition::Advance } else { step });
        effects.extend(self.settle(uid));
        effects
    }

    /// Drops the history of pods that finished and are not wanted, or are wanted anew, and drives those that are not
    /// wanted any more to their end. What is wanted and no longer known afterwards is to be created again.
    pub fn sync_known(&mut self, wanted: &HashSet<PodUid>) -> Vec<Effect> {
        let uids: Vec<PodUid> = self.entries.keys().cloned().collect();
        let mut effects = Vec::new();
        for uid in uids {
            let Some(entry) = self.entries.get_mut(&uid) else { continue };
            let is_wanted = wanted.contains(&uid);
            if matches!(entry.life.stage(), LifecyclePhase::Finished) {
                if !is_wanted || entry.life.restart_requested() {
                    self.forget(&uid);
                }
                continue;
            }
            // What only the runtime knows is on its way out already.
            if !is_wanted && entry.life.spec().is_some() {
                let step = entry.life.orphan();
                effects.extend(self.follow(&uid, step));
                effects.extend(self.settle(&uid));
            }
        }
        effects
    }

    /// Starts or interrupts work as `step` says.
    fn follow(&mut self, uid: &PodUid, step: Transition) -> Vec<Effect> {
        let interrupt = match step {
            Transition::Stay => return Vec::new(),
            Transition::Advance => false,
            Transition::Interrupt => true,
        };
        let may_start = self.may_start(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return Vec::new() };
        match &mut entry.worker {
            Worker::Busy { again, .. } => {
                *again = true;
                if interrupt { vec![Effect::Cancel(uid.clone())] } else { Vec::new() }
            }
            Worker::Idle { .. } => {
                if matches!(entry.life.stage(), LifecyclePhase::Waiting) && may_start {
                    entry.life.start();
                }
                match entry.life.work() {
                    Some(work) => {
                        entry.worker = Worker::Busy { work: work.clone(), again: false };
                        vec![Effect::Run(uid.clone(), work)]
                    }
                    // Nothing to do until somebody says so.
                    None => {
                        entry.worker = Worker::Idle { due: None };
                        Vec::new()
                    }
                }
            }
        }
    }

    /// Whether a waiting pod may start: a static pod only as the first in line of its full name, once no other of that
    /// name runs. Takes it out of the line.
    fn may_start(&mut self, uid: &PodUid) -> bool {
        let Some(entry) = self.entries.get(uid) else { return false };
        if self.unclaimed.contains(uid) {
            return false;
        }
        if !matches!(entry.life.stage(), LifecyclePhase::Waiting) || !entry.life.is_static() {
            return true;
        }
        let name = entry.life.pod().full_name();
        if let Some(running) = self.static_running.get(&name) {
            return running == uid;
        }
        let Some(line) = self.static_waiting.get_mut(&name) else { return false };
        let entries = &self.entries;
        // One that was taken over and is ending now stands in line until it has ended.
        let still_stands =
            |u: &PodUid| entries.get(u).is_some_and(|e| !matches!(e.life.stage(), LifecyclePhase::Finished));
        while line.front().is_some_and(|first| !still_stands(first)) {
            line.pop_front();
        }
        if line.front() != Some(uid) {
            return false;
        }
        line.pop_front();
        if line.is_empty() {
            self.static_waiting.remove(&name);
        }
        self.static_running.insert(name, uid.clone());
        true
    }

    /// After a pod finished: its worker may end, and the next static pod of its name may start.
    fn settle(&mut self, uid: &PodUid) -> Vec<Effect> {
        let Some(entry) = self.entries.get_mut(uid) else { return Vec::new() };
        if !matches!(entry.life.stage(), LifecyclePhase::Finished) {
            return Vec::new();
        }
        entry.worker = Worker::Idle { due: None };
        let name = entry.life.pod().full_name();
        let is_orphan = entry.life.spec().is_none();
        let mut effects = vec![Effect::Stop(uid.clone())];
        if self.static_running.get(&name) == Some(uid) {
            self.static_running.remove(&name);
        }
        if is_orphan {
            // A pod the runtime alone knew is not part of what is wanted: nothing is worth remembering.
            self.forget(uid);
        }
        if let Some(next) = self.first_in_line(&name) {
            effects.extend(self.follow(&next, Transition::Advance));
        }
        effects
    }

    fn first_in_line(&self, name: &str) -> Option<PodUid> {
        let line = self.static_waiting.get(name)?;
        line.iter()
            .find(|u| self.entries.get(*u).is_some_and(|e| matches!(e.life.stage(), LifecyclePhase::Waiting)))
            .cloned()
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(entry) = self.entries.remove(uid) else { return };
        self.unclaimed.remove(uid);
        let name = entry.life.pod().full_name();
        if self.static_running.get(&name) == Some(uid) {
            self.static_running.remove(&name);
        }
        if let Some(line) = self.static_waiting.get_mut(&name) {
            line.retain(|u| u != uid);
            if line.is_empty() {
                self.static_waiting.remove(&name);
            }
        }
    }

    /// The grace period that a pod is being stopped with, seconds; none if it is not.
    pub fn grace_seconds(&self, uid: &PodUid) -> Option<i64> {
        self.entries.get(uid)?.life.grace_seconds()
    }

    /// The newest spec of a pod.
    pub fn spec(&self, uid: &PodUid) -> Option<&Arc<AdmittedPod>> {
        self.entries.get(uid)?.life.spec()
    }
}

#[cfg(test)]
#[path = "lifecycles_history_tests.rs"]
mod history_tests;
#[cfg(test)]
#[path = "lifecycles_tests.rs"]
mod tests;
