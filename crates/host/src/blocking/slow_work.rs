//! Work on the host's files that may take minutes: on a thread of its own with the lowest priority, so that neither the daemon nor
//! the pool for its short file work waits for it.

use std::thread;

use tokio::sync::oneshot;

use super::file_work;
use super::in_place::works_in_place;
use crate::SysError;

/// The lowest priority, for the CPU and thereby for the disk.
const NICE: i32 = 19;
/// Stack size of a thread in bytes.
const STACK: usize = 256 * 1024;

/// Runs `work`, which is named for messages. A caller that stops waiting does not stop it. Unit tests run it in place, like
/// [`file_work()`].
///
/// # Errors
/// No thread could be started, or the work panicked.
pub async fn slow_work<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SysError> {
    if works_in_place() {
        return file_work(work).await.map_err(|_| SysError::Panicked { work: name });
    }
    let (reply, answer) = oneshot::channel();
    let on_thread = move || {
        // On Linux this concerns only the calling thread.
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "cannot lower the priority of a thread");
        }
        // The caller may have stopped waiting.
        let _ = reply.send(work());
    };
    let started = thread::Builder::new().name("slow-work".to_owned()).stack_size(STACK).spawn(on_thread);
    started.map_err(|source| SysError::Thread { work: name, source })?;
    answer.await.map_err(|_| SysError::Panicked { work: name })
}
