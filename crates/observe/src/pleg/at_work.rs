//! The pods a worker is changing. The runtime's events about them are mostly effects of the worker's own calls, which the
//! relist of the pod after those calls shows anyway: while pods start, relists for these events would be half of all queries. The
//! relist each second still covers such pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{PodRef, PodUid};
use parking_lot::{Mutex, MutexGuard};

use super::hints::Hints;

/// The pods being changed, each with the number of guards. Cheap to clone; all clones share its state.
#[derive(Clone, Default)]
pub(super) struct Working {
    pods: Arc<Mutex<BTreeMap<PodUid, usize>>>,
}

/// Work on a pod in progress. When dropped, for whatever reason, the pod is relisted.
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

    /// Begins work on a pod.
    pub(super) fn begin(&self, pod: &PodRef, hints: &Hints) -> AtWork {
        *self.lock().entry(pod.uid.clone()).or_default() += 1;
        AtWork { pod: pod.clone(), working: self.clone(), hints: hints.clone() }
    }

    /// Whether work on the pod is in progress.
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
