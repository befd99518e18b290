//! What is reported of each pod: its spec, its latest status, and what is being done about it. Statuses are written by their
//! owner alone, what is being done by the pods' workers; read by whoever shows pods.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::LifecycleSummary;
use super::timeline::Timeline;
use super::{Activity, Doing};
use crate::pod::AdmittedPod;
use crate::types::{PodRef, PodUid};

/// A pod and what is told of it.
#[derive(Clone, Debug)]
pub struct PodStatusEntry {
    /// The pod, with the status its source gave it.
    pub pod: Arc<AdmittedPod>,
    /// The status to believe.
    pub status: Arc<PodStatus>,
    /// Since when its running containers are being stopped for good; none if they are not.
    pub terminating_since: Option<Timestamp>,
    /// How far its life has come.
    pub lifecycle: LifecycleSummary,
    /// It has ended and released its resources on the host: its volumes and its cgroup. What the runtime still has of
    /// it keeps nobody waiting.
    pub has_released: bool,
}

/// All pods told of. Cheap to clone; all clones are one status cache.
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

    /// Reports a status. Nobody but the statuses' owner does.
    pub(super) fn put(&self, entry: PodStatusEntry) {
        self.lock().insert(entry.pod.reference.uid.clone(), entry);
        self.version.send_modify(|version| *version += 1);
    }

    /// Reports a status, for tests of those who read statuses.
    #[cfg(test)]
    pub fn tell(&self, entry: PodStatusEntry) {
        self.put(entry);
    }

    /// A pod that has ended holds nothing of the host any more, for such tests.
    #[cfg(test)]
    pub fn released(&self, pod: &PodUid) {
        if let Some(told) = self.lock().get_mut(pod) {
            told.has_released = true;
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// A pod's worker begins a step. Nobody is woken by it: steps are looked up, not watched.
    pub fn begin(&self, pod: &PodRef, activity: Activity, now: Timestamp) {
        let mut all = self.lock_doing();
        let doing = all.entry(pod.uid.clone()).or_insert_with(|| Doing {
            activity: Activity::Idle,
            since: now,
            retries: BTreeMap::new(),
            next_work: None,
        });
        doing.next_work = None;
        if doing.activity == activity {
            return;
        }
        self.timeline.step(pod, &activity, now);
        doing.activity = activity;
        doing.since = now;
    }

    /// When what failed for a pod's containers is tried again at the earliest.
    pub fn retries(&self, pod: &PodUid, retries: BTreeMap<String, Timestamp>) {
        if let Some(doing) = self.lock_doing().get_mut(pod) {
            doing.retries = retries;
        }
    }

    /// When a pod's worker begins its next work.
    pub fn schedule(&self, pod: &PodUid, next_work: Option<Timestamp>) {
        if let Some(doing) = self.lock_doing().get_mut(pod) {
            doing.next_work = next_work;
        }
    }

    /// What is being done about a pod; none if no step of it ever began.
    pub fn doing(&self, pod: &PodUid) -> Option<Doing> {
        self.lock_doing().get(pod).cloned()
    }

    /// What was done about each pod so far.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Forgets the pods that are not in `known`.
    pub fn keep(&self, known: &HashSet<PodUid>) {
        self.timeline.keep(known);
        self.lock_doing().retain(|uid, _| known.contains(uid));
        let mut pods = self.lock();
        let before = pods.len();
        pods.retain(|uid, _| known.contains(uid));
        if pods.len() != before {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// All pods told of, in no order.
    pub fn all(&self) -> Vec<PodStatusEntry> {
        self.lock().values().cloned().collect()
    }

    /// Changes whenever something is told or forgotten.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}
