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

/// All calls so far that were not forgotten, oldest first.
#[derive(Debug, Default)]
pub(super) struct CallLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// Number of forgotten calls.
    forgotten: usize,
    calls: Vec<RecordedCall>,
}

impl CallLog {
    pub(super) fn begin(&self, operation: Operation, pod: Option<PodUid>, target: String) -> CallGuard<'_> {
        let mut log = self.log();
        let index = log.forgotten + log.calls.len();
        log.calls.push(RecordedCall { operation, pod, target, at: Instant::now(), ended_at: None });
        CallGuard { log: self, index }
    }

    pub(super) fn snapshot(&self) -> Vec<RecordedCall> {
        self.log().calls.clone()
    }

    pub(super) fn after(&self, first: usize) -> (Vec<RecordedCall>, usize) {
        let log = self.log();
        let from = first.saturating_sub(log.forgotten);
        (log.calls.get(from..).unwrap_or_default().to_vec(), log.forgotten + log.calls.len())
    }

    /// Forgets the calls before the first that is in flight.
    pub(super) fn forget(&self) {
        let mut log = self.log();
        let ended = log.calls.iter().take_while(|call| call.ended_at.is_some()).count();
        log.calls.drain(..ended);
        log.forgotten += ended;
    }

    fn log(&self) -> MutexGuard<'_, Log> {
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
        let mut log = self.log.log();
        let index = self.index.checked_sub(log.forgotten);
        if let Some(call) = index.and_then(|index| log.calls.get_mut(index)) {
            call.ended_at = Some(Instant::now());
        }
    }
}
