//! The task that finds leftover tasks of containerd and deletes them.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_observe::pleg::Cache;
use hostlet_runtime::cri::{ContainerState, CriClient, CriError, SandboxState};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::suspects::{Idle, Suspects};
use crate::ownership::OwnPods;

/// Interval between checks, the same as between sweeps of the host.
const PERIOD: Duration = Duration::from_secs(60);

/// Periodically finds leftover tasks and deletes them. The app runs it if the runtime is containerd.
pub(crate) struct LeftoverTasks {
    /// Client of containerd.
    pub client: CriClient,
    /// What the runtime has.
    pub observed: Cache,
    /// The record of hostlet's own pods.
    pub own: OwnPods,
}

impl LeftoverTasks {
    /// Runs until cancelled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let mut suspects = Suspects::default();
        loop {
            let check = async {
                sleep(PERIOD).await;
                self.check(&mut suspects).await;
            };
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: the next daemon finds what is left.
                () = check => {}
            }
        }
    }

    async fn check(&self, suspects: &mut Suspects) {
        for (id, idle) in suspects.due(self.idle()) {
            let task = match self.client.stored_task(&id).await {
                Ok(task) => task,
                // The next check is soon enough. A shim that does not answer concerns only its own container.
                Err(error) => {
                    tracing::debug!(
                        container = id,
                        error = error_chain(&error),
                        "cannot look for a leftover task"
                    );
                    if matches!(error, CriError::Unreachable { .. }) {
                        return;
                    }
                    continue;
                }
            };
            if !suspects.answered(&id, idle, task) {
                continue;
            }
            match self.client.delete_task(&id).await {
                Ok(()) => tracing::warn!(
                    container = id,
                    "deleted the task of an exited container, which containerd had not deleted; the container can be removed now"
                ),
                Err(error) => {
                    tracing::warn!(
                        container = id,
                        error = error_chain(&error),
                        "cannot delete a leftover task"
                    );
                }
            }
        }
    }

    /// The containers and sandboxes of own pods that do not run.
    fn idle(&self) -> BTreeMap<String, Idle> {
        let mut idle = BTreeMap::new();
        for pod in self.observed.pods().into_iter().filter(|pod| self.own.has(&pod.uid)) {
            let Ok(status) = self.observed.get(&pod) else { continue };
            for container in &status.containers {
                match container.state {
                    ContainerState::Created => drop(idle.insert(container.id.to_string(), Idle::NotStarted)),
                    ContainerState::Exited => drop(idle.insert(container.id.to_string(), Idle::Ended)),
                    ContainerState::Running | ContainerState::Unknown => {}
                }
            }
            let ended = status.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::NotReady);
            idle.extend(ended.map(|sandbox| (sandbox.id.to_string(), Idle::Ended)));
        }
        idle
    }
}
