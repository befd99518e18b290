//! The reported state of each pod: its spec and latest status. Only the status task writes it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_pod::AdmittedPod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::LifecycleSummary;

/// A pod with its reported state.
#[derive(Clone, Debug)]
pub struct PodStatusEntry {
    /// The pod, with the status from its source.
    pub pod: Arc<AdmittedPod>,
    /// The current status.
    pub status: Arc<PodStatus>,
    /// When it began to terminate; `None` if it is not terminating.
    pub terminating_since: Option<Timestamp>,
    /// How far its lifecycle is, as its worker last reported it.
    pub lifecycle: LifecycleSummary,
    /// It has terminated and released its resources on the host: its volumes and cgroup. Remains in the runtime do not
    /// matter.
    pub has_released: bool,
}

/// The reported state of all pods. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct StatusCache {
    pods: Arc<Mutex<HashMap<PodUid, PodStatusEntry>>>,
    version: watch::Sender<u64>,
}

impl Default for StatusCache {
    fn default() -> Self {
        Self { pods: Arc::default(), version: watch::Sender::new(0) }
    }
}

impl StatusCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<PodUid, PodStatusEntry>> {
        // Every statement under the lock leaves the map valid.
        self.pods.lock()
    }

    /// Sets the status of a pod, and returns the one before. Only the status task calls it.
    pub(super) fn put(&self, entry: PodStatusEntry) -> Option<PodStatusEntry> {
        let before = self.lock().insert(entry.pod.reference.uid.clone(), entry);
        self.version.send_modify(|version| *version += 1);
        before
    }

    /// Sets the status of a pod, for tests of readers.
    #[cfg(any(test, feature = "fakes"))]
    pub fn report(&self, entry: PodStatusEntry) {
        drop(self.put(entry));
    }

    /// Marks a pod as released, for tests of readers.
    #[cfg(any(test, feature = "fakes"))]
    pub fn released(&self, pod: &PodUid) {
        if let Some(entry) = self.lock().get_mut(pod) {
            entry.has_released = true;
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// When a pod was started by its status; `None` before the first one.
    pub fn start_time(&self, pod: &PodUid) -> Option<Timestamp> {
        self.lock().get(pod)?.status.start_time.as_ref().map(|time| time.0)
    }

    /// The lifecycle of a pod; `None` before its first status.
    pub fn lifecycle(&self, pod: &PodUid) -> Option<LifecycleSummary> {
        self.lock().get(pod).map(|entry| entry.lifecycle)
    }

    /// Whether the pod has released its resources on the host; also if it is not known any more.
    pub fn has_released(&self, pod: &PodUid) -> bool {
        self.lock().get(pod).is_none_or(|entry| entry.has_released)
    }

    /// Removes the pods that are not in `known`.
    pub fn retain(&self, known: &HashSet<PodUid>) {
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
