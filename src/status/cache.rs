//! The reported state of each pod: its spec, latest status and current activity. Only the status task writes statuses; workers
//! write activities.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::LifecycleSummary;
use super::timeline::Timeline;
use super::{Activity, ContainerKill, Doing, ImagePull};
use crate::pod::AdmittedPod;
use crate::types::{PodRef, PodUid};

/// A pod with its reported state.
#[derive(Clone, Debug)]
pub struct PodStatusEntry {
    /// The pod, with the status from its source.
    pub pod: Arc<AdmittedPod>,
    /// The current status.
    pub status: Arc<PodStatus>,
    /// When it began to terminate; `None` if it is not terminating.
    pub terminating_since: Option<Timestamp>,
    /// Its lifecycle.
    pub lifecycle: LifecycleSummary,
    /// It has terminated and released its resources on the host: its volumes and cgroup. Remains in the runtime do not
    /// matter.
    pub has_released: bool,
}

/// The reported state of all pods. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct StatusCache {
    pods: Arc<Mutex<HashMap<PodUid, PodStatusEntry>>>,
    doing: Arc<Mutex<HashMap<PodUid, Doing>>>,
    timeline: Timeline,
    version: watch::Sender<u64>,
}

impl Default for StatusCache {
    fn default() -> Self {
        Self {
            pods: Arc::default(),
            doing: Arc::default(),
            timeline: Timeline::default(),
            version: watch::Sender::new(0),
        }
    }
}

impl StatusCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<PodUid, PodStatusEntry>> {
        // Every statement under the lock leaves the map valid.
        self.pods.lock()
    }

    fn lock_doing(&self) -> MutexGuard<'_, HashMap<PodUid, Doing>> {
        // As above.
        self.doing.lock()
    }

    /// Sets the status of a pod, and returns the one before. Only the status task calls it.
    pub(super) fn put(&self, entry: PodStatusEntry) -> Option<PodStatusEntry> {
        let before = self.lock().insert(entry.pod.reference.uid.clone(), entry);
        self.version.send_modify(|version| *version += 1);
        before
    }

    /// Sets the status of a pod, for tests of readers.
    #[cfg(test)]
    pub fn report(&self, entry: PodStatusEntry) {
        drop(self.put(entry));
    }

    /// Marks a pod as released, for tests of readers.
    #[cfg(test)]
    pub fn released(&self, pod: &PodUid) {
        if let Some(entry) = self.lock().get_mut(pod) {
            entry.has_released = true;
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Records that a pod's worker begins a step. Notifies no watcher: steps are queried, not watched.
    pub fn begin(&self, pod: &PodRef, activity: Activity, now: Timestamp) {
        let mut all = self.lock_doing();
        let doing = all.entry(pod.uid.clone()).or_insert_with(|| Doing::nothing(now));
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
        let mut all = self.lock_doing();
        let doing = all.entry(pod.uid.clone()).or_insert_with(|| Doing::nothing(now));
        doing.pulling.insert(pull.clone());
        self.timeline.pull_begins(pod, pull, now);
    }

    /// Records that an image is no longer being pulled for a pod.
    pub fn pull_ends(&self, pod: &PodRef, pull: &ImagePull, now: Timestamp) {
        let mut all = self.lock_doing();
        if let Some(doing) = all.get_mut(&pod.uid) {
            doing.pulling.remove(pull);
        }
        self.timeline.pull_ends(pod, pull, now);
    }

    /// Records that a container of a pod begins to be stopped.
    pub fn killed(&self, pod: &PodUid, kill: ContainerKill) {
        let mut all = self.lock_doing();
        all.entry(pod.clone()).or_insert_with(|| Doing::nothing(kill.at)).killed(kill);
    }

    /// Sets the earliest retry of each failed container of a pod.
    pub fn retries(&self, pod: &PodUid, retries: BTreeMap<String, Timestamp>) {
        if let Some(doing) = self.lock_doing().get_mut(pod) {
            doing.retries = retries;
        }
    }

    /// Sets which pull Secrets a pod misses.
    pub fn missing_secrets(&self, pod: &PodUid, names: Vec<String>) {
        if let Some(doing) = self.lock_doing().get_mut(pod) {
            doing.missing_secrets = names;
        }
    }

    /// Sets the time of the worker's next sync.
    pub fn schedule(&self, pod: &PodUid, next_work: Option<Timestamp>) {
        if let Some(doing) = self.lock_doing().get_mut(pod) {
            doing.next_work = next_work;
        }
    }

    /// The current activity of a pod; `None` before its first step.
    pub fn doing(&self, pod: &PodUid) -> Option<Doing> {
        self.lock_doing().get(pod).cloned()
    }

    /// The timeline of all pods.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// When a pod was started by its status; `None` before the first one.
    pub fn start_time(&self, pod: &PodUid) -> Option<Timestamp> {
        self.lock().get(pod)?.status.start_time.as_ref().map(|time| time.0)
    }

    /// The lifecycle of a pod; `None` before its first status.
    pub fn lifecycle(&self, pod: &PodUid) -> Option<LifecycleSummary> {
        self.lock().get(pod).map(|entry| entry.lifecycle)
    }

    /// Removes the pods that are not in `known`.
    pub fn retain(&self, known: &HashSet<PodUid>) {
        self.timeline.retain(known);
        self.lock_doing().retain(|uid, _| known.contains(uid));
        let mut pods = self.lock();
        let before = pods.len();
        pods.retain(|uid, _| known.contains(uid));
        if pods.len() != before {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// All pods, unordered.
    pub fn all(&self) -> Vec<PodStatusEntry> {
        self.lock().values().cloned().collect()
    }

    /// Changes whenever a status is set or removed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}
