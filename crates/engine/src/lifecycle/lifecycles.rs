//! The lifecycles of all pods and what couples them: static pods of one full name run one after the other. Pure: `now` and
//! randomness are arguments, actions are returned as effects.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodRef, PodUid};
use hostlet_pod::AdmittedPod;
use tokio::time::Instant;

use super::state::{LifecyclePhase, PodLifecycle, PodUpdate, Transition, UpdateSubject};
use crate::worker::{Outcome, Retry, Work};

/// Pause before failed work is retried.
const BACK_OFF: Duration = Duration::from_secs(10);
/// Pause before work is retried if its cause of failure usually passes soon.
const BACK_OFF_TRANSIENT: Duration = Duration::from_secs(1);
/// Every pause is lengthened by up to this fraction, so that pods do not run in lockstep.
const JITTER: f64 = 0.5;

/// What to do about a pod's worker.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Give this work to the pod's worker, starting one if there is none.
    Run(PodUid, Work),
    /// Cancel the work under way.
    Cancel(PodUid),
    /// The pod has finished; stop its worker.
    Stop(PodUid),
}

/// What others see of a lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleView {
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
    fn from(phase: &LifecyclePhase) -> Self {
        match phase {
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
    /// Nothing, until this instant or an update.
    Idle { due: Option<Instant> },
    /// This work; with `again`, the next work starts as soon as it completes.
    Busy { work: Work, again: bool },
}

#[derive(Debug)]
struct Entry {
    lifecycle: PodLifecycle,
    worker: Worker,
}

/// The lifecycles of all pods on this node.
#[derive(Debug)]
pub(crate) struct PodLifecycles {
    /// Ordered, so that effects for several pods come in the same order in every run.
    entries: BTreeMap<PodUid, Entry>,
    /// Which static pod of a full name runs.
    static_running: HashMap<String, PodUid>,
    /// The static pods of a full name that come next, in order of arrival, among those of which only the runtime knows.
    static_waiting: HashMap<String, VecDeque<PodUid>>,
    /// Whether the runtime was listed, and all that it has of pods without a record has been updated: a static pod's predecessor may be
    /// among them.
    is_runtime_known: bool,
    /// Adopted pods that no update has named yet.
    unclaimed: HashSet<PodUid>,
    resync: Duration,
}

impl PodLifecycles {
    /// No pods. `resync` is the pause after which an unchanged pod is synced again (`syncFrequency`).
    pub(crate) fn new(resync: Duration) -> Self {
        Self {
            entries: BTreeMap::new(),
            static_running: HashMap::new(),
            static_waiting: HashMap::new(),
            is_runtime_known: false,
            unclaimed: HashSet::new(),
            resync,
        }
    }

    /// The phase of a pod; `None` if it is not known.
    pub(crate) fn phase(&self, uid: &PodUid) -> Option<LifecycleView> {
        self.entries.get(uid).map(|e| e.lifecycle.phase().into())
    }

    /// The known pods with their phases.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&PodRef, LifecycleView)> {
        self.entries.values().map(|e| (e.lifecycle.pod(), e.lifecycle.phase().into()))
    }

    /// When a pod's next work begins; none while it is under way or none is due.
    pub(crate) fn due_of(&self, uid: &PodUid) -> Option<Instant> {
        match self.entries.get(uid)?.worker {
            Worker::Idle { due } => due,
            Worker::Busy { .. } => None,
        }
    }

    /// Adopts a pod of an earlier daemon. Called in order of admission, before any update. The pod may still be running,
    /// so it holds its full name. Nothing is done about it until an update names it.
    pub(crate) fn adopt(&mut self, spec: Arc<AdmittedPod>) {
        let pod = spec.reference.clone();
        let (uid, name) = (pod.uid.clone(), pod.full_name());
        self.insert(&UpdateSubject::Spec(spec), pod);
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.lifecycle.may_run();
        }
        if !self.static_running.contains_key(&name) && self.static_waiting.contains_key(&name) {
            self.static_waiting.remove(&name);
            self.static_running.insert(name, uid.clone());
        }
        self.unclaimed.insert(uid);
    }

    /// The runtime has containers of the pod: if it is killed before it is started here, it has to be stopped, and its
    /// successor waits for that. Ignores unknown pods.
    pub(crate) fn seen_in_runtime(&mut self, uid: &PodUid) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.lifecycle.may_run();
        }
    }

    /// The runtime was listed: static pods may start from now on, after their predecessors.
    pub(crate) fn runtime_is_known(&mut self) -> Vec<Effect> {
        self.is_runtime_known = true;
        let is_waiting = |entry: &Entry| matches!(entry.lifecycle.phase(), LifecyclePhase::Waiting);
        let waiting: Vec<PodUid> =
            self.entries.iter().filter(|(_, entry)| is_waiting(entry)).map(|(uid, _)| uid.clone()).collect();
        waiting.iter().flat_map(|uid| self.follow(uid, Transition::Advance)).collect()
    }

    /// Applies an update of a pod.
    pub(crate) fn update(&mut self, update: PodUpdate) -> Vec<Effect> {
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
            self.insert(&update.subject, pod);
        }
        self.unclaimed.remove(&uid);
        let Some(entry) = self.entries.get_mut(&uid) else { return Vec::new() };
        let had_finished = matches!(entry.lifecycle.phase(), LifecyclePhase::Finished);
        let step = entry.lifecycle.update(update);
        let mut effects = self.follow(&uid, step);
        if !had_finished {
            // A pod that finished without ever having started, e.g. one removed while it waited.
            effects.extend(self.settle(&uid));
        }
        effects
    }

    fn insert(&mut self, subject: &UpdateSubject, pod: PodRef) {
        let has_successor = match subject {
            UpdateSubject::Spec(spec) => spec.is_static,
            // Whether it is static is not known.
            UpdateSubject::Runtime { .. } => true,
        };
        if has_successor {
            self.static_waiting.entry(pod.full_name()).or_default().push_back(pod.uid.clone());
        }
        let entry =
            Entry { lifecycle: PodLifecycle::new(subject, pod.clone()), worker: Worker::Idle { due: None } };
        self.entries.insert(pod.uid, entry);
    }

    /// The pod changed in the runtime: its next work starts now. Ignores unknown pods.
    pub(crate) fn wake(&mut self, uid: &PodUid) -> Vec<Effect> {
        self.follow(uid, Transition::Advance)
    }

    /// Starts the work that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Effect> {
        let due: Vec<PodUid> = self
            .entries
            .iter()
            .filter(|(_, e)| matches!(e.worker, Worker::Idle { due: Some(due) } if due <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        due.iter().flat_map(|uid| self.follow(uid, Transition::Advance)).collect()
    }

    /// When work is due next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.entries.values().filter_map(|e| match e.worker {
            Worker::Idle { due } => due,
            Worker::Busy { .. } => None,
        });
        due.min()
    }

    /// Applies the outcome of a worker's work. `chance` in `[0, 1)` lengthens the pause before the next work.
    pub(crate) fn completed(
        &mut self,
        uid: &PodUid,
        outcome: Outcome,
        now: Instant,
        chance: f64,
    ) -> Vec<Effect> {
        let Some(entry) = self.entries.get_mut(uid) else { return Vec::new() };
        let Worker::Busy { work, again } = &entry.worker else { return Vec::new() };
        let again = *again;
        let step = entry.lifecycle.completed(work, outcome.clone());
        let jittered = |pause: Duration| now + pause.mul_f64(1.0 + JITTER * chance);
        let due = match outcome {
            Outcome::Done { due } => {
                Some(due.map_or(jittered(self.resync), |d| d.min(jittered(self.resync))))
            }
            Outcome::PodEnded | Outcome::DeadlineExceeded | Outcome::Rejected(_) | Outcome::Cancelled => {
                Some(now)
            }
            Outcome::Failed(Retry::Soon) => Some(jittered(BACK_OFF_TRANSIENT)),
            Outcome::Failed(Retry::BackOff) => Some(jittered(BACK_OFF)),
            Outcome::Failed(Retry::By(latest)) => Some(jittered(BACK_OFF).min(latest)),
        };
        entry.worker = Worker::Idle { due };
        let mut effects = self.follow(uid, if again { Transition::Advance } else { step });
        effects.extend(self.settle(uid));
        effects
    }

    /// Forgets the finished pods that were created again, and returns them. Those still desired have to be created now.
    pub(crate) fn forget_recreated(&mut self) -> Vec<PodUid> {
        let is_recreated = |entry: &Entry| {
            matches!(entry.lifecycle.phase(), LifecyclePhase::Finished) && entry.lifecycle.restart_requested()
        };
        let recreated = self.entries.iter().filter(|(_, entry)| is_recreated(entry));
        let recreated: Vec<PodUid> = recreated.map(|(uid, _)| uid.clone()).collect();
        recreated.iter().for_each(|uid| self.forget(uid));
        recreated
    }

    /// Forgets finished pods that are not desired, and terminates pods that are no longer desired.
    pub(crate) fn sync_known(&mut self, desired: &HashSet<PodUid>) -> Vec<Effect> {
        let uids: Vec<PodUid> = self.entries.keys().cloned().collect();
        let mut effects = Vec::new();
        for uid in uids {
            let Some(entry) = self.entries.get_mut(&uid) else { continue };
            let is_desired = desired.contains(&uid);
            if matches!(entry.lifecycle.phase(), LifecyclePhase::Finished) {
                if !is_desired {
                    self.forget(&uid);
                }
                continue;
            }
            // A pod known only from the runtime is terminating already.
            if !is_desired && entry.lifecycle.spec().is_some() {
                let step = entry.lifecycle.orphan();
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
                if matches!(entry.lifecycle.phase(), LifecyclePhase::Waiting) && may_start {
                    entry.lifecycle.start();
                }
                match entry.lifecycle.work() {
                    Some(work) => {
                        entry.worker = Worker::Busy { work: work.clone(), again: false };
                        vec![Effect::Run(uid.clone(), work)]
                    }
                    // Nothing to do until the next update.
                    None => {
                        entry.worker = Worker::Idle { due: None };
                        Vec::new()
                    }
                }
            }
        }
    }

    /// Whether a waiting pod may start: a static pod only as the first in the queue of its full name, once no other of that
    /// name runs. Removes it from the queue.
    fn may_start(&mut self, uid: &PodUid) -> bool {
        let Some(entry) = self.entries.get(uid) else { return false };
        if self.unclaimed.contains(uid) {
            return false;
        }
        if !matches!(entry.lifecycle.phase(), LifecyclePhase::Waiting) || !entry.lifecycle.is_static() {
            return true;
        }
        if !self.is_runtime_known {
            return false;
        }
        let name = entry.lifecycle.pod().full_name();
        if let Some(running) = self.static_running.get(&name) {
            return running == uid;
        }
        let Some(queue) = self.static_waiting.get_mut(&name) else { return false };
        let entries = &self.entries;
        // An adopted pod or an orphan that is terminating stays in the queue until it has finished.
        let is_queued = |u: &PodUid| {
            entries.get(u).is_some_and(|e| !matches!(e.lifecycle.phase(), LifecyclePhase::Finished))
        };
        while queue.front().is_some_and(|first| !is_queued(first)) {
            queue.pop_front();
        }
        if queue.front() != Some(uid) {
            return false;
        }
        queue.pop_front();
        if queue.is_empty() {
            self.static_waiting.remove(&name);
        }
        self.static_running.insert(name, uid.clone());
        true
    }

    /// After a pod has finished: stops its worker and starts the next static pod of its name.
    fn settle(&mut self, uid: &PodUid) -> Vec<Effect> {
        let Some(entry) = self.entries.get_mut(uid) else { return Vec::new() };
        if !matches!(entry.lifecycle.phase(), LifecyclePhase::Finished) {
            return Vec::new();
        }
        entry.worker = Worker::Idle { due: None };
        let name = entry.lifecycle.pod().full_name();
        let is_orphan = entry.lifecycle.spec().is_none();
        let mut effects = vec![Effect::Stop(uid.clone())];
        if self.static_running.get(&name) == Some(uid) {
            self.static_running.remove(&name);
        }
        if is_orphan {
            // It was known only from the runtime: there is nothing to remember.
            self.forget(uid);
        }
        if let Some(next) = self.first_in_queue(&name) {
            effects.extend(self.follow(&next, Transition::Advance));
        }
        effects
    }

    fn first_in_queue(&self, name: &str) -> Option<PodUid> {
        let queue = self.static_waiting.get(name)?;
        queue
            .iter()
            .find(|u| {
                self.entries.get(*u).is_some_and(|e| matches!(e.lifecycle.phase(), LifecyclePhase::Waiting))
            })
            .cloned()
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(entry) = self.entries.remove(uid) else { return };
        self.unclaimed.remove(uid);
        let name = entry.lifecycle.pod().full_name();
        if self.static_running.get(&name) == Some(uid) {
            self.static_running.remove(&name);
        }
        if let Some(queue) = self.static_waiting.get_mut(&name) {
            queue.retain(|u| u != uid);
            if queue.is_empty() {
                self.static_waiting.remove(&name);
            }
        }
    }

    /// The grace period of a terminating pod, seconds; none in other phases.
    pub(crate) fn grace_seconds(&self, uid: &PodUid) -> Option<i64> {
        self.entries.get(uid)?.lifecycle.grace_seconds()
    }

    /// The newest spec of a pod.
    pub(crate) fn spec(&self, uid: &PodUid) -> Option<&Arc<AdmittedPod>> {
        self.entries.get(uid)?.lifecycle.spec()
    }
}

#[cfg(test)]
#[path = "lifecycles_history_tests.rs"]
mod history_tests;
#[cfg(test)]
#[path = "lifecycles_tests.rs"]
mod tests;
