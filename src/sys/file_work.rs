//! File work off the async threads: a slow disk must not hold up the tasks beside the one that waits for it.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, spawn_blocking, yield_now};

/// Does `work`, which may block on a disk for a moment, on a thread for such work. A runtime of one thread does it in
/// place, between two steps of its other tasks: the daemon has more, and a test in paused time is the same in every run.
///
/// # Errors
/// `work` panicked. In place the panic goes on to the caller.
pub async fn file_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => {
            yield_now().await;
            let done = work();
            yield_now().await;
            Ok(done)
        }
        _ => spawn_blocking(work).await,
    }
}
