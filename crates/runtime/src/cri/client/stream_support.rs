//! Whether the runtime supports streamed lists, as far as is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the runtime may support streamed lists. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct StreamSupport(Arc<AtomicBool>);

impl Default for StreamSupport {
    /// Supported, until a call shows the opposite.
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl StreamSupport {
    /// Forgets that streamed lists are unsupported, after a lost connection.
    pub(super) fn reset(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_be_supported(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn mark_unsupported(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
