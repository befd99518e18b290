//! The log of calls, for tests that assert what was asked of the runtime, when, and how many at once.

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::super::Operation;
use crate::types::PodUid;

/// One call as the runtime saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call.
    pub operation: Operation,
    /// The pod it was about, where it was about one the runtime knows.
    pub pod: Option<PodUid>,
    /// What it named: an identifier, an image, or for a creation the name that was to be made.
    pub target: String,
    /// When it came.
    pub at: Instant,
    /// When it was answered or given up; none while in flight.
    pub ended_at: Option<Instant>,
}

/// All calls so far, oldest first.
#[derive(Debug, Default)]
pub(super) struct CallLog(Mutex<Vec<Call>>);

impl CallLog {
    pub(super) fn begin(&self, operation: Operation, pod: Option<PodUid>, target: String) -> CallGuard<'_> {
        let mut calls = self.calls();
        calls.push(Call { operation, pod, target, at: Instant::now(), ended_at: None });
        CallGuard { log: self, index: calls.len() - 1 }
    }

    pub(super) fn snapshot(&self) -> Vec<Call> {
        self.calls().clone()
    }

    pub(super) fn after(&self, first: usize) -> (Vec<Call>, usize) {
        let calls = self.calls();
        (calls.get(first..).unwrap_or_default().to_vec(), calls.len())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock()
    }
}

/// A call in flight; its drop is its end, also when the caller gives up.
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
