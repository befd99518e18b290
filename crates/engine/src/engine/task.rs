//! A task of the engine before it runs: its name, when a shutdown stops it, and whether it answers as a heartbeat. Spawns nothing.

use futures::future::{BoxFuture, FutureExt};
use tokio_util::sync::CancellationToken;

use hostlet_telemetry::Heartbeat;

/// When a shutdown stops a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStage {
    /// First: it works on pods.
    Pods,
    /// After those that work on pods: they depend on it.
    Support,
}

type Run = Box<dyn FnOnce(Heartbeat, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// A task, which must be run until it is cancelled: the engine does not work without it.
pub struct EngineTask {
    /// Its name, in the log and as the name of its heartbeat.
    pub name: &'static str,
    /// When a shutdown stops it.
    pub stage: TaskStage,
    /// Whether its loop answers as a heartbeat.
    pub has_heartbeat: bool,
    run: Run,
}

impl EngineTask {
    /// A task without a heartbeat.
    pub(super) fn new<F>(
        stage: TaskStage,
        name: &'static str,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { name, stage, has_heartbeat: false, run: Box::new(|_, cancel| run(cancel).boxed()) }
    }

    /// A task whose loop answers as a heartbeat.
    pub(super) fn with_heartbeat<F>(
        stage: TaskStage,
        name: &'static str,
        run: impl FnOnce(Heartbeat, CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let run: Run = Box::new(|heartbeat, cancel| run(heartbeat, cancel).boxed());
        Self { name, stage, has_heartbeat: true, run }
    }

    /// Runs it until cancelled. `heartbeat` is the one it answers as, if it has one.
    pub fn run(self, heartbeat: Heartbeat, cancel: CancellationToken) -> BoxFuture<'static, ()> {
        (self.run)(heartbeat, cancel)
    }
}
