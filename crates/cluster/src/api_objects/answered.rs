//! Whether the API server has answered about any object since the start, and how long it may be silent about one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long requests for an object may fail before receivers without a value get the error: most failures are brief, and
/// the receivers wait anyway.
pub(super) const TOLERANCE: Duration = Duration::from_secs(1);

/// How long an object may be without any answer of the API server, not even a failure, before its stored copy is used, if no request
/// for any object has succeeded since the start. Shorter than what receivers wait for the first state.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// Whether a request for an object has succeeded since the start. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl Answered {
    /// Whether one has.
    pub(super) fn has(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// One has succeeded.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
