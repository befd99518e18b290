//! Stopping pods: their containers within the grace period, then their sandboxes, then what is left on the host. Kills
//! never pass the start gate; the ends of many pods at once have one of their own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::plan::leftovers;
use super::syncer::WorkerContext;
use super::{Content, Memory, Outcome, Retry};
use crate::cri::{ContainerState, CriError};
use crate::cri_config::remove_pod_dir;
use crate::gate::{PendingStop, Urgency};
use crate::pleg::{Observed, PodStatus};
use crate::pod::StatusOverride;
use crate::pod::{Rank, is_static, pod_ref};
use crate::status::timeline::TimelineStep;
use crate::status::{Activity, PodProgress};
use crate::sys::{CNI_RESULTS, file_work, is_of_broken_result, remove_broken_results};
use crate::types::{ContainerId, PodEvent, PodRef, SandboxId, error_chain};

/// The runtime is never given less to stop a container, whatever the source of the grace period (as upstream).
const MIN_STOP_SECONDS: i64 = 2;

/// How long what the runtime has of a pod that is gone may wait for a quiet period, however busy the node is: as long as upstream
/// lets it lie.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(60);

/// Why a pod could not be stopped or cleaned up.
#[derive(Debug, thiserror::Error)]
pub(super) enum StopError {
    /// A call to the runtime failed.
    #[error(transparent)]
    Runtime(#[from] CriError),
    /// Every stop succeeded, and yet something runs.
    #[error("{0} still runs after it was stopped")]
    StillRunning(String),
    /// Every removal succeeded, and yet the runtime has something of the pod.
    #[error("the container runtime still has something of the pod after it was removed")]
    StillThere,
    /// Something the pod left on the host could not be removed.
    #[error("cannot remove what the pod left on this host: {0}")]
    Leftover(String),
}

impl StopError {
    fn retry(&self) -> Retry {
        match self {
            Self::Runtime(error) => Retry::after(error),
            Self::StillRunning(_) | Self::StillThere | Self::Leftover(_) => Retry::BackOff,
        }
    }
}

impl WorkerContext {
    /// Stops the containers of a pod and proves that none is left running.
    pub(super) async fn terminate(
        &self,
        pod: &Arc<Pod>,
        grace_seconds: i64,
        status: Option<&StatusOverride>,
        urgency: &Urgency,
        memory: &mut Memory,
    ) -> Outcome {
        let reference = pod_ref(pod);
        let stopping = self.stops.begin(Rank::of(pod), urgency.clone());
        let stopped = async {
            let observed = self.observe(&reference, memory).await?;
            memory.facts.progress = PodProgress::Terminating(status.cloned());
            self.leave_facts(&reference, memory);
            self.stop_and_prove(&reference, &observed, grace_seconds, stopping).await
        };
        match stopped.await {
            // What ended is told with the pod's end, which follows at once: one write to the API server.
            Ok((_, stopped)) => {
                self.mark(&reference, TimelineStep::Stopped);
                memory.settled = Some(stopped);
                Outcome::Done { due: None }
            }
            Err(error) => {
                let event = PodEvent::warning("FailedKillPod", format!("error killing pod: {error}"));
                self.event(&reference, None, event, memory);
                Outcome::Failed(error.retry())
            }
        }
    }

    /// Publishes the pod's last status and releases its resources.
    pub(super) async fn finish(
        &self,
        pod: &Arc<Pod>,
        status: Option<&StatusOverride>,
        content: Content,
        memory: &mut Memory,
    ) -> Outcome {
        let reference = pod_ref(pod);
        let finished = async {
            let observed = self.observe(&reference, memory).await?;
            let seen = match &memory.facts.progress {
                // Tried again: some of it may be removed by now.
                PodProgress::Terminated { observed, .. } => observed.clone(),
                PodProgress::Active | PodProgress::Terminating(_) => observed.clone(),
            };
            memory.facts.progress = PodProgress::Terminated { status: status.cloned(), observed: seen };
            self.leave_facts(&reference, memory);
            self.begin(&reference, Activity::CleaningUp);
            self.take_down_volumes(&reference).await?;
            self.remove_cgroup(&reference).await?;
            // Its object may go now. Removing what the runtime has of it is half of the work that is left, and nobody
            // waits for that: a daemon that ends meanwhile leaves orphans, which the next one removes.
            memory.facts.has_released = true;
            self.leave_facts(&reference, memory);
            // What its containers wrote when they ended goes with them: it was read by then.
            self.statuses.settled(&reference.uid).await;
            match content {
                Content::Keep => {
                    let left = leftovers(&observed, &[]);
                    Ok(self.remove_leftovers(&reference, &observed, &left).await?)
                }
                Content::Remove => {
                    // A static pod's successor waits for this.
                    if !is_static(pod) {
                        self.quiet_period.begins(Instant::now() + REMOVAL_PATIENCE).await;
                    }
                    self.remove_everything(&reference, &observed).await
                }
            }
        };
        self.conclude(&reference, content, finished.await, memory)
    }

    /// Stops and removes everything of a pod that only the runtime knows.
    pub(super) async fn reap(&self, pod: &PodRef, grace_seconds: i64, memory: &mut Memory) -> Outcome {
        let reaped = async {
            let observed = self.observe(pod, memory).await;
            let observed = observed.or_else(|error| self.pleg.cache().listed(&pod.uid).ok_or(error))?;
            let stopping = self.stops.begin(Rank::default(), Urgency::default());
            let (observed, _) = self.stop_and_prove(pod, &observed, grace_seconds, stopping).await?;
            self.begin(pod, Activity::CleaningUp);
            self.take_down_volumes(pod).await?;
            self.remove_cgroup(pod).await?;
            self.remove_everything(pod, &observed).await
        };
        self.conclude(pod, Content::Remove, reaped.await, memory)
    }

    fn conclude(
        &self,
        pod: &PodRef,
        content: Content,
        result: Result<(), StopError>,
        memory: &mut Memory,
    ) -> Outcome {
        match (result, content) {
            (Ok(()), Content::Keep) => Outcome::Done { due: None },
            (Ok(()), Content::Remove) => {
                self.mark(pod, TimelineStep::Removed);
                Outcome::Done { due: None }
            }
            (Err(error), _) => {
                memory.failure = Some(error.to_string());
                tracing::warn!(%pod, uid = %pod.uid, %error, "cannot clean up after the pod; trying again");
                Outcome::Failed(error.retry())
            }
        }
    }

    fn mark(&self, pod: &PodRef, step: TimelineStep) {
        // What the step before took is known now.
        self.begin(pod, Activity::Idle);
        self.status_cache.timeline().mark(pod, step, String::new(), self.clock.now());
    }

    /// Stops all of a pod; what a look later than the last stop then saw, and when that stop ended.
    async fn stop_and_prove(
        &self,
        pod: &PodRef,
        observed: &PodStatus,
        grace_seconds: i64,
        mut stopping: PendingStop,
    ) -> Result<(Arc<PodStatus>, Instant), StopError> {
        let at_work = self.pleg.at_work(pod);
        stopping.containers(self.stop_containers(pod, observed, grace_seconds)).await?;
        stopping.sandboxes(self.stop_sandboxes(pod, observed)).await?;
        drop(stopping);
        let stopped = Instant::now();
        drop(at_work);
        let observed = self.look_after(pod, stopped).await?;
        match observed.containers.iter().find(|c| runs(c.state)) {
            Some(left) => Err(StopError::StillRunning(format!("container {}", left.name))),
            None if observed.may_run() => Err(StopError::StillRunning("the sandbox".to_owned())),
            None => Ok((observed, stopped)),
        }
    }

    /// What a look later than `time` saw. Of a pod that could not be inspected for long it is what was listed, which tells what
    /// there is and what runs.
    async fn look_after(&self, pod: &PodRef, time: Instant) -> Observed {
        let observed = self.pleg.cache().newer_than(pod, Some(time)).await;
        observed.or_else(|error| self.pleg.cache().listed(&pod.uid).ok_or(error))
    }

    /// Stops all running containers at once. Shows that before it has a place at the gate.
    pub(super) fn stop_containers<'s>(
        &'s self,
        pod: &'s PodRef,
        observed: &'s PodStatus,
        grace_seconds: i64,
    ) -> impl Future<Output = Result<(), CriError>> + use<'s> {
        let running: Vec<_> = observed.containers.iter().filter(|c| runs(c.state)).collect();
        if !running.is_empty() {
            self.begin(
                pod,
                Activity::StoppingContainers { grace_seconds: grace_seconds.max(MIN_STOP_SECONDS) },
            );
        }
        let stops = running.into_iter().map(move |container| {
            let message = format!("Stopping container {}", container.name);
            self.stop_container(pod, &container.name, &container.id, message, grace_seconds)
        });
        join_all(stops).map(|stopped| stopped.into_iter().collect())
    }

    /// Stops all sandboxes at once, those that are down too: that is how the runtime gives back a network it may still hold.
    pub(super) async fn stop_sandboxes(&self, pod: &PodRef, observed: &PodStatus) -> Result<(), CriError> {
        if !observed.sandboxes.is_empty() {
            self.begin(pod, Activity::StoppingSandbox);
        }
        join_all(observed.sandboxes.iter().map(|s| self.stop_sandbox(pod, &s.id))).await.into_iter().collect()
    }

    /// Stops one sandbox, also where the runtime was killed while its network was noted.
    async fn stop_sandbox(&self, pod: &PodRef, id: &SandboxId) -> Result<(), CriError> {
        let stopped = self.runtime.stop_sandbox(id).await;
        let Err(error) = &stopped else { return stopped };
        if !is_of_broken_result(&error.to_string()) {
            return stopped;
        }
        let sandbox = id.clone();
        let removed =
            file_work(move || remove_broken_results(Path::new(CNI_RESULTS), sandbox.as_str())).await;
        let uid = &pod.uid;
        match removed {
            Ok(Ok(removed)) if !removed.is_empty() => {
                let files: Vec<_> = removed.iter().map(|file| file.display().to_string()).collect();
                let files = files.join(", ");
                tracing::warn!(%pod, %uid, files, "removed what a killed container runtime left of the pod's network result");
                self.runtime.stop_sandbox(id).await
            }
            Ok(Ok(_)) | Err(_) => stopped,
            Ok(Err(problem)) => {
                let error = error_chain(&problem);
                tracing::warn!(%pod, %uid, error, "cannot look for broken network results in {CNI_RESULTS}");
                stopped
            }
        }
    }

    /// Stops one container.
    pub(super) async fn stop_container(
        &self,
        pod: &PodRef,
        name: &str,
        id: &ContainerId,
        message: String,
        grace_seconds: i64,
    ) -> Result<(), CriError> {
        self.announce(pod, Some(name), &PodEvent::normal("Killing", message));
        self.runtime.stop_container(id, grace_seconds.max(MIN_STOP_SECONDS)).await
    }

    /// Removes the stopped containers, their logs and links, the sandboxes and the pod's directories.
    async fn remove_everything(&self, pod: &PodRef, observed: &PodStatus) -> Result<(), StopError> {
        let at_work = self.pleg.at_work(pod);
        let containers = observed.containers.iter().map(|c| self.runtime.remove_container(&c.id));
        let removed: Result<(), CriError> = join_all(containers).await.into_iter().collect();
        removed?;
        let sandboxes = observed.sandboxes.iter().map(|s| self.runtime.remove_sandbox(&s.id));
        let removed: Result<(), CriError> = join_all(sandboxes).await.into_iter().collect();
        removed?;
        let removed = Instant::now();
        drop(at_work);
        // What is still shown when the pod is forgotten would be taken for an orphan.
        let left = self.look_after(pod, removed).await?;
        if !(left.containers.is_empty() && left.sandboxes.is_empty()) {
            return Err(StopError::StillThere);
        }
        self.remove_files(pod, observed).await
    }

    async fn remove_files(&self, pod: &PodRef, observed: &PodStatus) -> Result<(), StopError> {
        let (logs, host, mounts) = (self.logs.clone(), self.host.clone(), self.mounts.clone());
        let containers: Vec<_> =
            observed.containers.iter().map(|c| (c.name.clone(), c.id.clone(), c.attempt)).collect();
        let pod = pod.clone();
        blocking(move || {
            for (name, id, attempt) in containers {
                logs.remove_container_logs(&pod, &name, attempt, &id).map_err(|e| error_chain(&e))?;
            }
            logs.remove_pod_dir(&pod).map_err(|e| error_chain(&e))?;
            remove_pod_dir(&host.root_dir, &pod.uid, &*mounts).map_err(|e| error_chain(&e))
        })
        .await
    }

    /// Before the cgroup, which volumes in memory are charged to.
    async fn take_down_volumes(&self, pod: &PodRef) -> Result<(), StopError> {
        let down = self.volumes.tear_down(&pod.uid).await;
        down.map_err(|error| StopError::Leftover(error_chain(&error)))
    }

    async fn remove_cgroup(&self, pod: &PodRef) -> Result<(), StopError> {
        let Some(cgroups) = self.cgroups.clone() else { return Ok(()) };
        let uid = pod.uid.clone();
        blocking(move || cgroups.remove_pod(&uid).map_err(|e| error_chain(&e))).await
    }
}

fn runs(state: ContainerState) -> bool {
    match state {
        ContainerState::Running | ContainerState::Unknown => true,
        ContainerState::Created | ContainerState::Exited => false,
    }
}

/// Runs short file work off the async threads.
async fn blocking(work: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), StopError> {
    match file_work(work).await {
        Ok(result) => result.map_err(StopError::Leftover),
        Err(error) => Err(StopError::Leftover(error.to_string())),
    }
}
