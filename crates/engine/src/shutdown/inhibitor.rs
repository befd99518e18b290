//! The delay lock, shared by the connection, which takes it, and the task, which releases it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::logind::InhibitLock;

/// The lock with the number of logind's signal that it was taken after. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Inhibitor(Arc<Mutex<Option<(u64, InhibitLock)>>>);

impl Inhibitor {
    /// Holds this lock from now on; the one before is released afterwards.
    pub(super) fn hold(&self, number: u64, lock: InhibitLock) {
        let before = self.0.lock().replace((number, lock));
        drop(before);
    }

    /// Whether a lock is held.
    pub(super) fn is_held(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Releases the lock, unless it was taken after a later signal: then that shutdown was cancelled, and the lock is for the next.
    pub(super) fn release(&self, number: u64) {
        let held = self.0.lock().take_if(|(taken, _)| *taken <= number);
        drop(held);
    }
}
