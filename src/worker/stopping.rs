//! Stops a pod's containers within the grace period, then its sandboxes. Kills never pass the start gate.

use std::path::Path;

use futures::future::join_all;
use tokio::time::Instant;

use super::context::WorkerContext;
use super::reporter::Reporter;
use super::stop_order::{GraceBudget, MIN_STOP_SECONDS, stop_order};
use crate::cri::CriError;
use crate::pleg::PodStatus;
use crate::pod::AdmittedPod;
use crate::status::Activity;
use crate::sys::{CNI_RESULTS, file_work, is_broken_result_error, remove_broken_results};
use crate::types::{ContainerId, PodEvent, SandboxId, error_chain};

/// Stops the containers and sandboxes of one pod.
#[derive(Clone, Copy)]
pub(super) struct Stopping<'a> {
    pub(super) context: &'a WorkerContext,
    /// None for a pod known only from the runtime.
    pub(super) pod: Option<&'a AdmittedPod>,
    pub(super) reporter: &'a Reporter,
}

impl<'a> Stopping<'a> {
    /// Stops all running containers in their order, within the grace period that they share. Stops as many as possible, then
    /// returns the first error. The activity is shown at once, not only when the future is polled.
    pub(super) fn containers(
        self,
        observed: &'a PodStatus,
        grace_seconds: i64,
    ) -> impl Future<Output = Result<(), CriError>> + use<'a> {
        let groups = stop_order(self.pod, observed);
        if !groups.is_empty() {
            let grace_seconds = grace_seconds.max(MIN_STOP_SECONDS);
            self.reporter.begin(Activity::StoppingContainers { grace_seconds });
        }
        async move {
            let budget = GraceBudget::starting(grace_seconds, Instant::now());
            let mut result = Ok(());
            for group in groups {
                let grace = budget.left(Instant::now());
                let stops = group.into_iter().map(async |container| {
                    let message = format!("Stopping container {}", container.name);
                    self.container(&container.name, &container.id, &message, grace).await
                });
                let stopped: Result<(), CriError> = join_all(stops).await.into_iter().collect();
                result = result.and(stopped);
            }
            result
        }
    }

    /// Stops one container.
    pub(super) async fn container(
        self,
        name: &str,
        id: &ContainerId,
        message: &str,
        grace_seconds: i64,
    ) -> Result<(), CriError> {
        self.reporter.announce(Some(name), &PodEvent::normal("Killing", message));
        self.context.runtime.service.stop_container(id, grace_seconds.max(MIN_STOP_SECONDS)).await
    }

    /// Stops all sandboxes at once, also those that are not ready: the runtime then releases a network it may still hold.
    pub(super) async fn sandboxes(self, observed: &PodStatus) -> Result<(), CriError> {
        if !observed.sandboxes.is_empty() {
            self.reporter.begin(Activity::StoppingSandbox);
        }
        join_all(observed.sandboxes.iter().map(|s| self.sandbox(&s.id))).await.into_iter().collect()
    }

    /// Stops one sandbox, even if the runtime was killed while it wrote the sandbox's CNI result.
    async fn sandbox(self, id: &SandboxId) -> Result<(), CriError> {
        let runtime = &self.context.runtime.service;
        let stopped = runtime.stop_sandbox(id).await;
        let Err(error) = &stopped else { return stopped };
        if !is_broken_result_error(&error.to_string()) {
            return stopped;
        }
        let sandbox = id.clone();
        let removed =
            file_work(move || remove_broken_results(Path::new(CNI_RESULTS), sandbox.as_str())).await;
        let pod = self.reporter.pod();
        let uid = &pod.uid;
        match removed {
            Ok(Ok(removed)) if !removed.is_empty() => {
                let files: Vec<_> = removed.iter().map(|file| file.display().to_string()).collect();
                let files = files.join(", ");
                tracing::warn!(%pod, %uid, files, "removed damaged network results of the pod, left by a killed container runtime");
                runtime.stop_sandbox(id).await
            }
            Ok(Ok(_)) | Err(_) => stopped,
            Ok(Err(problem)) => {
                let error = error_chain(&problem);
                tracing::warn!(%pod, %uid, error, "cannot look for damaged network results in {CNI_RESULTS}");
                stopped
            }
        }
    }
}
