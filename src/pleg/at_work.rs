//! The pods a worker is changing. What the runtime tells of its own accord about them is what the worker's own calls did,
//! and the look at the pod when they have ended shows it: asking after each of its events would be half of the runtime's
//! lookups while pods start. The relist each second still sees such pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::hints::Hints;
use crate::types::{PodRef, PodUid};

/// The pods at work, each with how many are at it. Cheap to clone; all clones are one list.
#[derive(Clone, Default)]
pub(super) struct Working {
    pods: Arc<Mutex<BTreeMap<PodUid, usize>>>,
}

/// Somebody works on a pod; when dropped, for whatever reason, the pod is looked at.
#[must_use]
pub struct AtWork {
    pod: PodRef,
    working: Working,
    hints: Hints,
}

impl Working {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, usize>> {
        // Every statement under the lock leaves the list valid.
        self.pods.lock()
    }

    /// Work on a pod begins.
    pub(super) fn begin(&self, pod: &PodRef, hints: &Hints) -> AtWork {
        *self.lock().entry(pod.uid.clone()).or_default() += 1;
        AtWork { pod: pod.clone(), working: self.clone(), hints: hints.clone() }
    }

    /// Whether somebody works on the pod.
    pub(super) fn has(&self, pod: &PodUid) -> bool {
        self.lock().contains_key(pod)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut pods = self.working.lock();
        if let Some(count) = pods.get_mut(&self.pod.uid) {
            *count -= 1;
            if *count == 0 {
                pods.remove(&self.pod.uid);
            }
        }
        drop(pods);
        self.hints.push(self.pod.clone());
    }
}
