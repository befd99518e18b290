//! File work off the async thread: a slow disk must not hold up the tasks beside the one that waits for it.

use tokio::task::{JoinError, spawn_blocking, yield_now};

/// Does `work`, which may block on a disk for a moment, on a thread for such work. Unit tests do it in place, between two
/// steps of the other tasks, so that a test in paused time is the same in every run.
///
/// # Errors
/// `work` panicked. In place the panic goes on to the caller.
pub async fn file_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if cfg!(test) {
        yield_now().await;
        let done = work();
        yield_now().await;
        Ok(done)
    } else {
        spawn_blocking(work).await
    }
}
