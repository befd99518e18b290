//! What is told of each pod: its spec and its latest status. Written by the pods' workers, read by whoever shows pods.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::watch;

use super::pod_ref;
use crate::types::PodUid;

/// A pod and what is told of it.
#[derive(Clone, Debug)]
pub struct Told {
    /// The pod, with the status its source gave it.
    pub pod: Arc<Pod>,
    /// The status to believe.
    pub status: Arc<PodStatus>,
    /// Since when its running containers are being stopped for good; none if they are not.
    pub terminating_since: Option<Timestamp>,
}

/// All pods told of. Cheap to clone; all clones are one board.
#[derive(Clone)]
pub struct StatusBoard {
    pods: Arc<Mutex<HashMap<PodUid, Told>>>,
    version: watch::Sender<u64>,
}

impl Default for StatusBoard {
    fn default() -> Self {
        Self { pods: Arc::default(), version: watch::Sender::new(0) }
    }
}

impl StatusBoard {
    fn lock(&self) -> MutexGuard<'_, HashMap<PodUid, Told>> {
        // Every statement under the lock leaves the map valid.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a pod.
    pub fn tell(&self, told: Told) {
        self.lock().insert(pod_ref(&told.pod).uid, told);
        self.version.send_modify(|version| *version += 1);
    }

    /// Forgets the pods that are not in `known`.
    pub fn keep(&self, known: &HashSet<PodUid>) {
        let mut pods = self.lock();
        let before = pods.len();
        pods.retain(|uid, _| known.contains(uid));
        if pods.len() != before {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// All pods told of, in no order.
    pub fn all(&self) -> Vec<Told> {
        self.lock().values().cloned().collect()
    }

    /// Changes whenever something is told or forgotten.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}
