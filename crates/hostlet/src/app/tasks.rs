//! The daemon's named tasks: started here, stopped in stages, and monitored.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use hostlet_base::RescanRequester;
use hostlet_engine::engine::{EngineTask, TaskStage};
use hostlet_telemetry::{Heartbeat, Heartbeats};

/// Time limit of the shutdown.
const DRAIN: Duration = Duration::from_secs(5);

/// Time limit of the first stage: runtime calls in progress have four seconds.
const FIRST_STAGE: Duration = Duration::from_millis(4200);

/// Shutdown stages in order: a stage is cancelled once the previous one has stopped or exceeded its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Work on pods: sources, admission, lifecycles with their workers.
    Pods,
    /// Their dependencies: PLEG, volumes, objects, observers.
    Support,
    /// Publishing to the API server, and to plugins: statuses, mirror pods, events, registrations.
    Publish,
    /// The daemon's own state: the store, the control socket.
    State,
    /// The node status.
    Node,
    /// The node's lease, last of what others see: until then the node counts as alive.
    Lease,
    /// Reports to the service manager, until everything else has stopped.
    Supervisor,
}

impl Stage {
    const ALL: [Self; 7] =
        [Self::Pods, Self::Support, Self::Publish, Self::State, Self::Node, Self::Lease, Self::Supervisor];

    fn of_engine(stage: TaskStage) -> Self {
        match stage {
            TaskStage::Pods => Self::Pods,
            TaskStage::Support => Self::Support,
        }
    }

    /// Whether its tasks change anything outside this process.
    fn acts(self) -> bool {
        match self {
            Self::Pods | Self::Publish | Self::Node | Self::Lease => true,
            Self::Support | Self::State | Self::Supervisor => false,
        }
    }

    /// The stage's deadline in a shutdown that began at this time.
    fn deadline(self, began: Instant) -> Instant {
        match self {
            Self::Pods => began + FIRST_STAGE,
            Self::Support | Self::Publish | Self::State | Self::Node | Self::Lease | Self::Supervisor => {
                began + DRAIN
            }
        }
    }
}

struct Task {
    name: &'static str,
    stage: Stage,
}

/// The set of tasks.
pub(super) struct Tasks {
    set: JoinSet<()>,
    running: HashMap<Id, Task>,
    /// Stops the daemon.
    cancel: CancellationToken,
    stages: [CancellationToken; Stage::ALL.len()],
    heartbeats: Heartbeats,
    rescan: Arc<RescanRequester>,
    /// Set while tasks that act are held back.
    hold: Option<Hold>,
}

/// The tasks that are held back.
#[derive(Default)]
struct Hold {
    is_released: watch::Sender<bool>,
    /// The heartbeats registered meanwhile: their loops may not have begun.
    heartbeats: Vec<Heartbeat>,
}

/// A task that ended unexpectedly.
#[derive(Debug, thiserror::Error)]
#[error("the task {name} ended unexpectedly")]
pub(crate) struct TaskEnded {
    name: &'static str,
    source: Option<JoinError>,
}

impl Tasks {
    /// An empty set. `cancel` stops the daemon.
    pub(super) fn new(cancel: CancellationToken) -> Self {
        Self {
            set: JoinSet::new(),
            running: HashMap::new(),
            cancel,
            stages: Default::default(),
            heartbeats: Heartbeats::default(),
            rescan: Arc::default(),
            hold: None,
        }
    }

    /// The heartbeats of the tasks that have one.
    pub(super) fn heartbeats(&self) -> &Heartbeats {
        &self.heartbeats
    }

    /// Requests the tasks that read files periodically to read them now.
    pub(super) fn rescan(&self) -> &Arc<RescanRequester> {
        &self.rescan
    }

    /// The heartbeat of a task that is started next.
    pub(super) fn heartbeat(&mut self, name: &'static str) -> Heartbeat {
        let heartbeat = self.heartbeats.register(name);
        if let Some(hold) = &mut self.hold {
            heartbeat.suspend();
            hold.heartbeats.push(heartbeat.clone());
        }
        heartbeat
    }

    /// Holds back the tasks that change anything outside this process, until [`Tasks::release`]: those that are started from now on
    /// do not begin before.
    pub(super) fn hold(&mut self) {
        self.hold = Some(Hold::default());
    }

    /// Lets the held tasks begin.
    pub(super) fn release(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.is_released.send_replace(true);
            hold.heartbeats.iter().for_each(Heartbeat::resume);
        }
    }

    /// Starts a task of any stage that only reads, and so is never held back.
    pub(super) fn spawn_reader<F>(
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

    /// Starts a task, which must end when its stage's token is cancelled.
    pub(super) fn spawn<F>(
        &mut self,
        stage: Stage,
        name: &'static str,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token(stage).clone();
        let task = task(token.clone());
        let handle =
            match self.hold.as_ref().filter(|_| stage.acts()).map(|hold| hold.is_released.subscribe()) {
                None => self.set.spawn(task),
                Some(mut hold) => self.set.spawn(async move {
                    let is_released = tokio::select! {
                        biased;
                        // Cancel-safe: waits for a token.
                        () = token.cancelled() => false,
                        // Cancel-safe: reads a watch. Without a sender it was never released, and the daemon stops.
                        released = hold.wait_for(|is_released| *is_released) => released.is_ok(),
                    };
                    if is_released {
                        task.await;
                    }
                }),
            };
        self.running.insert(handle.id(), Task { name, stage });
    }

    /// Starts tasks of the engine, in this order.
    pub(super) fn spawn_engine(&mut self, tasks: Vec<EngineTask>) {
        for task in tasks {
            let (name, stage) = (task.name, Stage::of_engine(task.stage));
            let heartbeat = if task.has_heartbeat { self.heartbeat(name) } else { Heartbeat::default() };
            self.spawn(stage, name, |cancel| task.run(heartbeat, cancel));
        }
    }

    fn token(&self, stage: Stage) -> &CancellationToken {
        let [pods, support, publish, state, node, lease, supervisor] = &self.stages;
        match stage {
            Stage::Pods => pods,
            Stage::Support => support,
            Stage::Publish => publish,
            Stage::State => state,
            Stage::Node => node,
            Stage::Lease => lease,
            Stage::Supervisor => supervisor,
        }
    }

    /// Waits until the daemon is stopped, then stops its tasks stage by stage. A task that ends before is an error: the daemon
    /// cannot work without it, and its supervisor restarts it.
    pub(super) async fn run(mut self) -> Result<(), TaskEnded> {
        let ended = tokio::select! {
            // The daemon's stop is checked first: a task that ends because of it is no error.
            biased;
            // Cancel-safe: waits for a token.
            () = self.cancel.cancelled() => None,
            // Cancel-safe: an ended task leaves the set only when returned.
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

    /// Stops all tasks stage by stage.
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
            tracing::warn!(tasks = names.join(", "), "some tasks did not stop in time; exiting without them");
            self.set.shutdown().await;
        }
    }

    /// Removes an ended task.
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
    use parking_lot::Mutex;
    use tokio::time::sleep;

    use super::*;

    /// Tasks that record their end this long after being cancelled.
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
    async fn tasks_stop_in_the_order_of_their_stages_the_lease_last() {
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
    async fn tasks_that_act_are_held_back_until_released() {
        let cancel = CancellationToken::new();
        let (mut tasks, begun) = (Tasks::new(cancel.clone()), Arc::new(Mutex::new(Vec::new())));
        tasks.hold();
        for stage in Stage::ALL {
            let begun = begun.clone();
            tasks.spawn(stage, "any", |cancel| async move {
                begun.lock().push(stage);
                cancel.cancelled().await;
            });
        }
        let reader = begun.clone();
        tasks.spawn_reader(Stage::Pods, "reader", |cancel| async move {
            reader.lock().push(Stage::Pods);
            cancel.cancelled().await;
        });
        sleep(Duration::from_secs(1)).await;
        assert_eq!(*begun.lock(), [Stage::Support, Stage::State, Stage::Supervisor, Stage::Pods]);
        tasks.release();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(begun.lock().len(), Stage::ALL.len() + 1);
        // One that is stopped while it is held back never begins.
        tasks.hold();
        tasks.spawn(Stage::Pods, "held", |_| async { panic!("it began") });
        cancel.cancel();
        assert!(tasks.run().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_does_not_block_later_stages() {
        let cancel = CancellationToken::new();
        let (mut tasks, ends) = (Tasks::new(cancel.clone()), Arc::default());
        tasks.spawn(Stage::Pods, "deaf", |_| std::future::pending());
        noting(&mut tasks, &ends, &[(Stage::State, "store", 0), (Stage::Lease, "lease", 0)]);
        cancel.cancel();
        assert!(tasks.run().await.is_ok());
        assert_eq!(*ends.lock(), ["store", "lease"]);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_end_after_cancellation_are_no_error() {
        for _ in 0..32 {
            let cancel = CancellationToken::new();
            let mut tasks = Tasks::new(cancel.clone());
            let token = cancel.clone();
            tasks.spawn(Stage::Pods, "polite", |_| async move { token.cancelled().await });
            cancel.cancel();
            tokio::task::yield_now().await;
            assert!(tasks.run().await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_unexpectedly_is_named_and_stops_the_others() {
        let (mut tasks, ends) = (Tasks::new(CancellationToken::new()), Arc::default());
        noting(&mut tasks, &ends, &[(Stage::Lease, "lease", 0)]);
        tasks.spawn(Stage::Support, "broken", |_| async { panic!("on purpose") });
        let error = tasks.run().await.unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert_eq!(*ends.lock(), ["lease"]);
    }
}
