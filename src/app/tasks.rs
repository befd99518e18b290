//! The daemon's tasks by name: started here, ended in stages, and none ends unnoticed.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long all tasks together may take to end once the daemon is told to.
const DRAIN: Duration = Duration::from_secs(5);

/// How long those of the first stage may: calls to the runtime that are under way have four seconds.
const FIRST_STAGE: Duration = Duration::from_millis(4200);

/// The order in which tasks end: a stage is told to end once the one before it has ended, or has used up its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// What decides about pods and works on them: sources, admission, the table with its workers.
    Pods,
    /// What these look at and lean on: PLEG, volumes, objects, observers.
    Support,
    /// What the API server is sent about pods: statuses, mirrors, events.
    Publish,
    /// What keeps the daemon's own state and shows it: the store, the control socket.
    State,
    /// The status of the node.
    Node,
    /// The lease of the node, last of all: until then the cluster knows the node as alive.
    Lease,
}

impl Stage {
    const ALL: [Self; 6] = [Self::Pods, Self::Support, Self::Publish, Self::State, Self::Node, Self::Lease];

    /// When this stage's time is over, of a shutdown that began then.
    fn deadline(self, began: Instant) -> Instant {
        match self {
            Self::Pods => began + FIRST_STAGE,
            Self::Support | Self::Publish | Self::State | Self::Node | Self::Lease => began + DRAIN,
        }
    }
}

struct Task {
    name: &'static str,
    stage: Stage,
}

/// A set of tasks that live as long as the daemon.
pub(super) struct Tasks {
    set: JoinSet<()>,
    running: HashMap<Id, Task>,
    /// Ends the daemon.
    cancel: CancellationToken,
    stages: [CancellationToken; Stage::ALL.len()],
}

/// A task that ended although nobody told it to.
#[derive(Debug, thiserror::Error)]
#[error("the task {name} ended unexpectedly")]
pub struct TaskEnded {
    name: &'static str,
    source: Option<JoinError>,
}

impl Tasks {
    /// No tasks yet. `cancel` ends the daemon.
    pub(super) fn new(cancel: CancellationToken) -> Self {
        Self { set: JoinSet::new(), running: HashMap::new(), cancel, stages: Default::default() }
    }

    /// Starts a task that ends, with its stage, when the token it is given is cancelled.
    pub(super) fn spawn<F>(
        &mut self,
        stage: Stage,
        name: &'static str,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.set.spawn(task(self.token(stage).clone()));
        self.running.insert(handle.id(), Task { name, stage });
    }

    fn token(&self, stage: Stage) -> &CancellationToken {
        let [pods, support, publish, state, node, lease] = &self.stages;
        match stage {
            Stage::Pods => pods,
            Stage::Support => support,
            Stage::Publish => publish,
            Stage::State => state,
            Stage::Node => node,
            Stage::Lease => lease,
        }
    }

    /// Waits until the daemon is told to end, then ends its tasks stage by stage. A task that ends before is an error: the
    /// daemon is not whole without it, and a supervisor starts it anew.
    pub(super) async fn run(mut self) -> Result<(), TaskEnded> {
        let ended = tokio::select! {
            // The daemon's end comes first: a task that ends because of it has done as it was told.
            biased;
            // Cancel-safe: waits for a token.
            () = self.cancel.cancelled() => None,
            // Cancel-safe: an ended task is taken off the set only when it is returned.
            Some(ended) = self.set.join_next_with_id() => Some(ended),
        };
        self.cancel.cancel();
        let unexpected = ended.and_then(|ended| self.take(ended));
        self.drain().await;
        match unexpected {
            None => Ok(()),
            Some((task, source)) => Err(TaskEnded { name: task.name, source }),
        }
    }

    /// Ends what runs, stage by stage.
    async fn drain(&mut self) {
        let began = Instant::now();
        for stage in Stage::ALL {
            self.token(stage).cancel();
            while self.running.values().any(|task| task.stage == stage) {
                match timeout_at(stage.deadline(began), self.set.join_next_with_id()).await {
                    Ok(Some(ended)) => drop(self.take(ended)),
                    Ok(None) => return,
                    Err(_) => break,
                }
            }
        }
        if !self.running.is_empty() {
            let names: Vec<&str> = self.running.values().map(|task| task.name).collect();
            tracing::warn!(tasks = names.join(", "), "some tasks did not end in time; ending without them");
            self.set.shutdown().await;
        }
    }

    /// Takes an ended task off the list.
    fn take(&mut self, ended: Result<(Id, ()), JoinError>) -> Option<(Task, Option<JoinError>)> {
        let (id, error) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        self.running.remove(&id).map(|task| (task, error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::time::sleep;

    use super::*;

    /// Tasks that each take so long to end once told to, and note that they have.
    fn noting(tasks: &mut Tasks, ends: &Arc<Mutex<Vec<&'static str>>>, all: &[(Stage, &'static str, u64)]) {
        for (stage, name, seconds) in all {
            let (ends, name, seconds) = (ends.clone(), *name, *seconds);
            tasks.spawn(*stage, name, |cancel| async move {
                cancel.cancelled().await;
                sleep(Duration::from_secs(seconds)).await;
                ends.lock().push(name);
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_end_in_the_order_of_their_stages_the_lease_last() {
        let cancel = CancellationToken::new();
        let (mut tasks, ends) = (Tasks::new(cancel.clone()), Arc::default());
        let all = [
            (Stage::Lease, "lease", 0),
            (Stage::Node, "node status", 0),
            (Stage::State, "store", 1),
            (Stage::Publish, "status manager", 0),
            (Stage::Pods, "pods", 2),
            (Stage::Support, "pleg", 1),
        ];
        noting(&mut tasks, &ends, &all);
        cancel.cancel();
        assert!(tasks.run().await.is_ok());
        assert_eq!(*ends.lock(), ["pods", "pleg", "status manager", "store", "node status", "lease"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_keeps_no_later_stage_from_ending() {
        let cancel = CancellationToken::new();
        let (mut tasks, ends) = (Tasks::new(cancel.clone()), Arc::default());
        tasks.spawn(Stage::Pods, "deaf", |_| std::future::pending());
        noting(&mut tasks, &ends, &[(Stage::State, "store", 0), (Stage::Lease, "lease", 0)]);
        cancel.cancel();
        assert!(tasks.run().await.is_ok());
        assert_eq!(*ends.lock(), ["store", "lease"]);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_ended_when_told_are_no_error_however_late_that_is_noticed() {
        for _ in 0..32 {
            let cancel = CancellationToken::new();
            let mut tasks = Tasks::new(cancel.clone());
            let told = cancel.clone();
            tasks.spawn(Stage::Pods, "polite", |_| async move { told.cancelled().await });
            cancel.cancel();
            tokio::task::yield_now().await;
            assert!(tasks.run().await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_by_itself_is_named_and_ends_the_others() {
        let (mut tasks, ends) = (Tasks::new(CancellationToken::new()), Arc::default());
        noting(&mut tasks, &ends, &[(Stage::Lease, "lease", 0)]);
        tasks.spawn(Stage::Support, "broken", |_| async { panic!("on purpose") });
        let error = tasks.run().await.unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert_eq!(*ends.lock(), ["lease"]);
    }
}
