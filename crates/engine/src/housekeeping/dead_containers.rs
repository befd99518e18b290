//! Removes the containers and sandboxes of pods that have terminated and are not deleted, for an eviction that needs their space:
//! upstream's `DeleteAllUnusedContainers`. What other pods no longer need is removed by their workers already. Never touches a pod of
//! which anything may run, nor one of others.

use std::sync::Arc;

use hostlet_base::{PodUid, error_chain};
use hostlet_host::file_work;
use hostlet_observe::log::LogLayout;
use hostlet_observe::pleg::{Cache, PodStatus};
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, CriError, RuntimeService, SandboxState};

use crate::ownership::OwnPods;

/// The dead containers of this node. Cheap to clone.
#[derive(Clone)]
pub struct DeadContainers {
    /// Removes containers and sandboxes.
    pub runtime: Arc<dyn RuntimeService>,
    /// What it has of pods.
    pub observed: Cache,
    /// Which pods have terminated.
    pub status_cache: StatusCache,
    /// The record of hostlet's own pods.
    pub own: OwnPods,
    /// The logs of containers, which are removed with them.
    pub logs: LogLayout,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadRemoved {
    /// How many containers.
    pub containers: usize,
    /// How many sandboxes.
    pub sandboxes: usize,
    /// How many of both the runtime failed to remove.
    pub failed: usize,
}

impl DeadContainers {
    /// Removes all dead containers, with their logs, and all sandboxes of own pods that have terminated. Their statuses stay, and they do
    /// not run again. Calls to the runtime that fail are logged, and part of the result.
    pub async fn delete_all(&self) -> DeadRemoved {
        let mut removed = DeadRemoved::default();
        let pods = self.observed.last_known();
        for pod in pods.iter().filter(|pod| self.has_terminated(&pod.pod.uid) && is_dead(pod)) {
            self.delete(pod, &mut removed).await;
        }
        // An eviction that cannot be avoided asks again and again.
        if removed != DeadRemoved::default() {
            tracing::info!(
                containers = removed.containers,
                sandboxes = removed.sandboxes,
                failed = removed.failed,
                "removed what the container runtime had of terminated pods, as requested"
            );
        }
        removed
    }

    fn has_terminated(&self, uid: &PodUid) -> bool {
        let has_terminated = match self.status_cache.lifecycle(uid) {
            Some(LifecycleSummary::Terminated) => true,
            Some(LifecycleSummary::Active | LifecycleSummary::Terminating) | None => false,
        };
        has_terminated && self.own.has(uid)
    }

    async fn delete(&self, pod: &PodStatus, removed: &mut DeadRemoved) {
        let mut is_empty = true;
        for container in &pod.containers {
            let result = self.runtime.remove_container(&container.id).await;
            is_empty &= result.is_ok();
            if count(result, pod, &mut removed.containers, &mut removed.failed) {
                self.delete_logs(pod, container).await;
            }
        }
        // A sandbox is removed with its containers, whose logs are then nobody's.
        for sandbox in pod.sandboxes.iter().filter(|_| is_empty) {
            let result = self.runtime.remove_sandbox(&sandbox.id).await;
            count(result, pod, &mut removed.sandboxes, &mut removed.failed);
        }
    }

    async fn delete_logs(&self, pod: &PodStatus, container: &ContainerStatus) {
        let (logs, pod, id) = (self.logs.clone(), pod.pod.clone(), container.id.clone());
        let (name, attempt) = (container.name.clone(), container.attempt);
        let owner = pod.clone();
        let work = file_work(move || logs.remove_container_logs(&owner, &name, attempt, &id));
        if let Ok(Err(error)) = work.await {
            tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot remove a container's log");
        }
    }
}

/// Whether nothing of a pod can run.
fn is_dead(pod: &PodStatus) -> bool {
    let is_dead = |container: &ContainerStatus| match container.state {
        ContainerState::Created | ContainerState::Exited => true,
        ContainerState::Running | ContainerState::Unknown => false,
    };
    let is_stopped = |state: SandboxState| match state {
        SandboxState::NotReady => true,
        SandboxState::Ready => false,
    };
    pod.containers.iter().all(is_dead) && pod.sandboxes.iter().all(|sandbox| is_stopped(sandbox.state))
}

/// Counts a removal. Returns whether it succeeded.
fn count(result: Result<(), CriError>, pod: &PodStatus, removed: &mut usize, failed: &mut usize) -> bool {
    let pod = &pod.pod;
    match result {
        Ok(()) => *removed += 1,
        Err(error) => {
            *failed += 1;
            tracing::warn!(%pod, uid = %pod.uid, %error, "cannot remove something of a terminated pod");
            return false;
        }
    }
    true
}
