//! Whether work that blocks runs where it is asked for. Only in programs with unit tests, so that those with paused time are
//! deterministic; never in the daemon, whatever features it was built with.

use std::sync::atomic::{AtomicBool, Ordering};

static IN_PLACE: AtomicBool = AtomicBool::new(false);

pub(super) fn works_in_place() -> bool {
    IN_PLACE.load(Ordering::Relaxed)
}

/// From now on, file work of this program runs in place, and work on paths of pods on threads of the runtime, for which paused time
/// stands still. Called by [`work_in_place!`](crate::work_in_place).
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub fn work_in_place() {
    IN_PLACE.store(true, Ordering::Relaxed);
}

/// Makes the unit tests of a crate, at whose root it stands, do work that blocks in place.
#[cfg(any(test, feature = "fakes"))]
#[macro_export]
#[doc(hidden)]
macro_rules! work_in_place {
    () => {
        // Before `main`, which belongs to the test harness.
        #[$crate::testing::ctor::ctor(unsafe, crate_path = $crate::testing::ctor)]
        fn work_in_place() {
            $crate::testing::work_in_place();
        }
    };
}
