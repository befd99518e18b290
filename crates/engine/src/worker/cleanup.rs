//! Removes what a pod leaves once nothing of it runs: dead containers and sandboxes, logs, directories, volumes, its cgroup.
//! Never stops anything.

use futures::future::join_all;
use hostlet_base::error_chain;
use hostlet_dra::ReleaseError;
use hostlet_host::cgroup::CgroupError;
use hostlet_host::file_work;
use hostlet_observe::log::LogError;
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::Activity;
use hostlet_runtime::cri::CriError;
use hostlet_volume::VolumeError;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::Retry;
use super::context::WorkerContext;
use super::plan::Leftovers;
use super::reporter::Reporter;
use super::state::seen_after;
use crate::cri_config::{PodDirError, remove_pod_dir};

/// Why a pod could not be stopped or cleaned up.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndError {
    /// A call to the runtime failed.
    #[error(transparent)]
    Runtime(#[from] CriError),
    /// Every stop succeeded, and yet something runs.
    #[error("{0} still runs after it was stopped")]
    StillRunning(String),
    /// Every removal succeeded, and yet the runtime has something of the pod.
    #[error("the container runtime still has something of the pod after it was removed")]
    StillThere,
    #[error(transparent)]
    Claims(ReleaseError),
    #[error("cannot tear down the pod's volumes")]
    Volumes(#[source] VolumeError),
    #[error("cannot remove the pod's cgroup")]
    Cgroup(#[source] CgroupError),
    #[error("cannot remove the pod's logs")]
    Logs(#[source] LogError),
    #[error("cannot remove the pod's directory")]
    Directory(#[source] PodDirError),
    #[error("the clean-up of the pod on this host panicked")]
    Panicked(#[source] JoinError),
}

impl EndError {
    /// When to try again.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Runtime(error) => Retry::after(error),
            Self::StillRunning(_)
            | Self::StillThere
            | Self::Claims(_)
            | Self::Volumes(_)
            | Self::Cgroup(_)
            | Self::Logs(_)
            | Self::Directory(_)
            | Self::Panicked(_) => Retry::BackOff,
        }
    }
}

/// Removes what one pod leaves.
#[derive(Clone, Copy)]
pub(super) struct Cleanup<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) reporter: &'a Reporter,
}

impl Cleanup<'_> {
    /// Removes dead containers, with their logs, and empty sandboxes of a pod that stays on this node. Removes as many as
    /// possible, then returns the first error.
    pub(super) async fn leftovers(self, observed: &PodStatus, left: &Leftovers) -> Result<(), CriError> {
        if !left.containers.is_empty() {
            // A container is removed with its termination message, which the status task must have read before.
            self.reporter.status_settled().await;
        }
        let (pod, runtime) = (self.reporter.pod(), &self.context.runtime.service);
        let mut result = Ok(());
        for id in &left.containers {
            if let Err(error) = runtime.remove_container(id).await {
                result = result.and(Err(error));
                continue;
            }
            let Some(dead) = observed.containers.iter().find(|c| c.id == *id) else { continue };
            let (logs, owner, id) = (self.context.host.logs.clone(), pod.clone(), id.clone());
            let (name, attempt) = (dead.name.clone(), dead.attempt);
            let removed = file_work(move || logs.remove_container_logs(&owner, &name, attempt, &id));
            if let Ok(Err(error)) = removed.await {
                tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot remove a container's log");
            }
        }
        for id in &left.sandboxes {
            result = result.and(runtime.remove_sandbox(id).await);
        }
        result
    }

    /// Removes the stopped containers, their logs and links, the sandboxes and the pod's directories.
    pub(super) async fn everything(self, observed: &PodStatus) -> Result<(), EndError> {
        let (pod, runtime) = (self.reporter.pod(), &self.context.runtime.service);
        let at_work = self.context.runtime.pleg.at_work(pod);
        let containers = observed.containers.iter().map(|c| runtime.remove_container(&c.id));
        let removed: Result<(), CriError> = join_all(containers).await.into_iter().collect();
        removed?;
        let sandboxes = observed.sandboxes.iter().map(|s| runtime.remove_sandbox(&s.id));
        let removed: Result<(), CriError> = join_all(sandboxes).await.into_iter().collect();
        removed?;
        let removed = Instant::now();
        drop(at_work);
        // What the runtime still lists when the pod is forgotten would count as an orphan.
        let left = seen_after(self.context, pod, removed).await?;
        if !(left.containers.is_empty() && left.sandboxes.is_empty()) {
            return Err(EndError::StillThere);
        }
        self.files(observed).await
    }

    async fn files(self, observed: &PodStatus) -> Result<(), EndError> {
        let host = &self.context.host;
        let (logs, settings, mounts) = (host.logs.clone(), host.settings.clone(), host.mounts.clone());
        let containers: Vec<_> =
            observed.containers.iter().map(|c| (c.name.clone(), c.id.clone(), c.attempt)).collect();
        let pod = self.reporter.pod().clone();
        let work = move || {
            for (name, id, attempt) in containers {
                logs.remove_container_logs(&pod, &name, attempt, &id).map_err(EndError::Logs)?;
            }
            logs.remove_pod_dir(&pod).map_err(EndError::Logs)?;
            remove_pod_dir(&settings.root_dir, &pod.uid, &*mounts).map_err(EndError::Directory)
        };
        file_work(work).await.map_err(EndError::Panicked)?
    }

    /// Has the devices unprepared that the pod used last. None of its containers runs.
    pub(super) async fn claims(self) -> Result<(), EndError> {
        let (pod, claims) = (self.reporter.pod(), &self.context.host.claims);
        if claims.is_released(&pod.uid) {
            return Ok(());
        }
        self.reporter.begin(Activity::UnpreparingClaims);
        claims.release(&pod.uid).await.map_err(EndError::Claims)
    }

    /// Releases the pod's resources on the host. Volumes come first: those in memory are charged to the pod's cgroup.
    pub(super) async fn resources(self) -> Result<(), EndError> {
        let uid = self.reporter.pod().uid.clone();
        self.context.host.volumes.tear_down(&uid).await.map_err(EndError::Volumes)?;
        let (cgroups, users) = (self.context.host.cgroups.clone(), self.context.host.user_namespaces.clone());
        let work = move || {
            cgroups.map_or(Ok(()), |cgroups| cgroups.remove_pod(&uid)).map_err(EndError::Cgroup)?;
            users.release(&uid).map_err(EndError::Directory)
        };
        file_work(work).await.map_err(EndError::Panicked)?
    }
}
