//! Requests to relist one pod now, conflated per pod. A hint means that something may have changed, never what.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use hostlet_base::PodRef;

/// The pods to relist now. Has one reader.
#[derive(Clone, Default)]
pub(super) struct Hints {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    pods: Mutex<BTreeSet<PodRef>>,
    filled: Notify,
}

impl Hints {
    pub(super) fn push(&self, pod: PodRef) {
        self.inner.pods.lock().insert(pod);
        self.inner.filled.notify_one();
    }

    /// Waits for a hint, and returns all pods hinted at since the last call. Cancel-safe.
    pub(super) async fn next(&self) -> BTreeSet<PodRef> {
        loop {
            let pods = std::mem::take(&mut *self.inner.pods.lock());
            if !pods.is_empty() {
                return pods;
            }
            self.inner.filled.notified().await;
        }
    }
}
