//! Runs file work off the async thread, so that a slow disk blocks only the waiting task.

use tokio::task::{JoinError, spawn_blocking, yield_now};

use super::in_place::works_in_place;

/// Runs `work`, which may block on a disk briefly, on the blocking pool. Unit tests run it in place, so that tests with paused
/// time are deterministic.
///
/// # Errors
/// `work` panicked. In place, the panic propagates to the caller.
pub async fn file_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if works_in_place() {
        yield_now().await;
        let done = work();
        yield_now().await;
        Ok(done)
    } else {
        spawn_blocking(work).await
    }
}
