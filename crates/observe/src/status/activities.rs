//! What the workers of all pods do at the moment. Workers write it, users read it; no decision depends on it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hostlet_base::{PodRef, PodUid};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::timeline::Timeline;
use super::{Activity, ContainerKill, ImagePull, WorkerActivity};

/// The activities of all pods. Cheap to clone; clones share them.
#[derive(Clone)]
pub struct PodActivities {
    doing: Arc<Mutex<HashMap<PodUid, WorkerActivity>>>,
    /// Where steps and pulls are recorded too.
    timeline: Timeline,
}

impl PodActivities {
    /// No activities yet. Steps and pulls will be part of `timeline`.
    pub fn new(timeline: Timeline) -> Self {
        Self { doing: Arc::default(), timeline }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PodUid, WorkerActivity>> {
        // Every statement under the lock leaves the map valid.
        self.doing.lock()
    }

    /// Records that a pod's worker begins a step. Notifies no watcher: steps are queried, not watched.
    pub fn begin(&self, pod: &PodRef, activity: Activity, now: Timestamp) {
        let mut all = self.lock();
        let doing = all.entry(pod.uid.clone()).or_insert_with(|| WorkerActivity::nothing(now));
        doing.next_work = None;
        if doing.activity == activity {
            return;
        }
        self.timeline.step(pod, &activity, now);
        doing.activity = activity;
        doing.since = now;
    }

    /// Records that an image begins to be pulled for a pod, beside the worker's step.
    pub fn pull_begins(&self, pod: &PodRef, pull: &ImagePull, now: Timestamp) {
        let mut all = self.lock();
        let doing = all.entry(pod.uid.clone()).or_insert_with(|| WorkerActivity::nothing(now));
        doing.pulling.insert(pull.clone());
        self.timeline.pull_begins(pod, pull, now);
    }

    /// Records that an image is no longer being pulled for a pod.
    pub fn pull_ends(&self, pod: &PodRef, pull: &ImagePull, now: Timestamp) {
        let mut all = self.lock();
        if let Some(doing) = all.get_mut(&pod.uid) {
            doing.pulling.remove(pull);
        }
        self.timeline.pull_ends(pod, pull, now);
    }

    /// Records that a container of a pod begins to be stopped.
    pub fn killed(&self, pod: &PodUid, kill: ContainerKill) {
        let mut all = self.lock();
        all.entry(pod.clone()).or_insert_with(|| WorkerActivity::nothing(kill.at)).killed(kill);
    }

    /// Sets the earliest retry of each failed container of a pod.
    pub fn retries(&self, pod: &PodUid, retries: BTreeMap<String, Timestamp>) {
        if let Some(doing) = self.lock().get_mut(pod) {
            doing.retries = retries;
        }
    }

    /// Sets which pull Secrets a pod misses.
    pub fn missing_secrets(&self, pod: &PodUid, names: Vec<String>) {
        if let Some(doing) = self.lock().get_mut(pod) {
            doing.missing_secrets = names;
        }
    }

    /// Sets the time of the worker's next sync.
    pub fn schedule(&self, pod: &PodUid, next_work: Option<Timestamp>) {
        if let Some(doing) = self.lock().get_mut(pod) {
            doing.next_work = next_work;
        }
    }

    /// The current activity of a pod; `None` before its first step.
    pub fn of(&self, pod: &PodUid) -> Option<WorkerActivity> {
        self.lock().get(pod).cloned()
    }

    /// Removes the pods that are not in `known`.
    pub fn retain(&self, known: &HashSet<PodUid>) {
        self.lock().retain(|uid, _| known.contains(uid));
    }
}
