//! Threads for a task that must not delay the others, which share one.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Threads for file work that blocks, as of the daemon's own.
const BLOCKING_THREADS: usize = 8;

/// Threads of their own. Dropping them ends what runs on them.
pub(super) struct OwnThreads(Option<Runtime>);

impl OwnThreads {
    /// Starts as many.
    pub(super) fn new(name: &'static str, threads: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs `task` on them. If it panics, the panic propagates to the caller.
    pub(super) async fn run(self, task: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = &self.0 else { return };
        if let Err(error) = runtime.spawn(task).await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        // Waiting for blocked file work would block this thread.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_runs_on_other_threads_and_its_panic_is_not_lost() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let threads = OwnThreads::new("own", 1).unwrap();
        threads.run(async { send.send(std::thread::current().name().map(str::to_owned)).unwrap() }).await;
        assert_eq!(receive.await.unwrap().as_deref(), Some("own"));
        let threads = OwnThreads::new("own", 1).unwrap();
        let panicking = threads.run(async { panic!("on purpose") });
        use futures::FutureExt;
        assert!(std::panic::AssertUnwindSafe(panicking).catch_unwind().await.is_err());
    }
}
