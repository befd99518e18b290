//! The daemon's tasks by name: started here, ended together, and none ends unnoticed.

use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long tasks may take to end once asked to.
const DRAIN: Duration = Duration::from_secs(5);

/// A set of tasks that live as long as the daemon.
pub(super) struct Tasks {
    set: JoinSet<()>,
    names: Vec<(Id, &'static str)>,
    cancel: CancellationToken,
}

/// A task that ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
#[error("the task {name} ended unexpectedly")]
pub struct TaskEnded {
    name: &'static str,
    source: Option<JoinError>,
}

impl Tasks {
    pub(super) fn new(cancel: CancellationToken) -> Self {
        Self { set: JoinSet::new(), names: Vec::new(), cancel }
    }

    /// The token that ends all tasks.
    pub(super) fn cancel(&self) -> CancellationToken {
        self.cancel.clone()
    }

    pub(super) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.names.push((handle.id(), name));
    }

    /// Waits until the daemon is asked to end, then for its tasks. A task that ends before is an error: the daemon is not
    /// whole without it, and a supervisor starts it anew.
    pub(super) async fn run(mut self) -> Result<(), TaskEnded> {
        let ended = tokio::select! {
            // Tasks that were asked to end before we came here have done as they were told.
            biased;
            // Cancel-safe: waiting for a token takes nothing.
            () = self.cancel.cancelled() => None,
            // Cancel-safe: an ended task is taken off the set only when it is returned.
            Some(ended) = self.set.join_next_with_id() => Some(ended),
        };
        self.cancel.cancel();
        let drained = tokio::time::timeout(DRAIN, async { while self.set.join_next().await.is_some() {} });
        if drained.await.is_err() {
            tracing::warn!("some tasks did not end in time; ending without them");
            self.set.shutdown().await;
        }
        let (id, source) = match ended {
            None => return Ok(()),
            Some(Ok((id, ()))) => (id, None),
            Some(Err(error)) => (error.id(), Some(error)),
        };
        let name = self.names.iter().find(|(known, _)| *known == id).map_or("?", |(_, name)| name);
        Err(TaskEnded { name, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_end_when_asked_even_one_that_will_not() {
        let cancel = CancellationToken::new();
        let mut tasks = Tasks::new(cancel.clone());
        let token = tasks.cancel();
        tasks.spawn("polite", async move { token.cancelled().await });
        tasks.spawn("deaf", std::future::pending());
        cancel.cancel();
        assert!(tasks.run().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_ended_when_asked_are_no_error_however_late_that_is_noticed() {
        for _ in 0..32 {
            let cancel = CancellationToken::new();
            let mut tasks = Tasks::new(cancel.clone());
            let token = tasks.cancel();
            tasks.spawn("polite", async move { token.cancelled().await });
            cancel.cancel();
            tokio::task::yield_now().await;
            assert!(tasks.run().await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_by_itself_is_named() {
        let mut tasks = Tasks::new(CancellationToken::new());
        let token = tasks.cancel();
        tasks.spawn("loyal", async move { token.cancelled().await });
        tasks.spawn("broken", async { panic!("on purpose") });
        let error = tasks.run().await.unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
