//! The log of calls, for assertions on which calls were made, when, and how many in parallel.

use hostlet_base::PodUid;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::super::Operation;

/// A received call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The method that was called.
    pub operation: Operation,
    /// Its pod, if the runtime knows it.
    pub pod: Option<PodUid>,
    /// Its subject: an ID, an image, or the name of a created object.
    pub target: String,
    /// When it was received.
    pub at: Instant,
    /// Its end, by response or cancellation; `None` while in flight.
    pub ended_at: Option<Instant>,
}

/// All calls so far, oldest first.
#[derive(Debug, Default)]
pub(super) struct CallLog(Mutex<Vec<RecordedCall>>);

impl CallLog {
    pub(super) fn begin(&self, operation: Operation, pod: Option<PodUid>, target: String) -> CallGuard<'_> {
        let mut calls = self.calls();
        calls.push(RecordedCall { operation, pod, target, at: Instant::now(), ended_at: None });
        CallGuard { log: self, index: calls.len() - 1 }
    }

    pub(super) fn snapshot(&self) -> Vec<RecordedCall> {
        self.calls().clone()
    }

    pub(super) fn after(&self, first: usize) -> (Vec<RecordedCall>, usize) {
        let calls = self.calls();
        (calls.get(first..).unwrap_or_default().to_vec(), calls.len())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<RecordedCall>> {
        self.0.lock()
    }
}

/// A call in flight, finished when dropped, also by cancellation.
pub(super) struct CallGuard<'a> {
    log: &'a CallLog,
    index: usize,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.log.calls().get_mut(self.index) {
            call.ended_at = Some(Instant::now());
        }
    }
}
