//! Performs a purge: pod by pod, as many as possible; hostlet's own files last, so that a purge that failed can be repeated.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::{ContainerId, PodRef, PodUid, error_chain};
use hostlet_engine::cri_config::remove_pod_dir;
use hostlet_engine::housekeeping::{Family, IptablesError, remove_iptables_chains};
use hostlet_host::cgroup::Cgroups;
use hostlet_host::{Mounts, SysError, file_work, pods_dir, remove_tree, unshare_dir};
use hostlet_observe::log::LogLayout;
use hostlet_runtime::cri::{ContainerState, CriError, RuntimeService};
use hostlet_volume::{self as volume, VolumeThreads};

use super::facts::{is_unused, remains};
use super::plan::PurgePlan;

/// Grace period of a container whose own is unknown, in seconds: the API's default.
const GRACE_SECONDS: i64 = 30;

/// What could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PurgeError {
    /// A pod could not be ended.
    #[error("pod {pod} could not be removed from the container runtime")]
    Pod { pod: PodRef, source: CriError },
    /// Every call succeeded, and yet the runtime has something of the pod.
    #[error("the container runtime still has something of pod {0}")]
    StillThere(PodRef),
    /// Something of a pod on the host could not be removed.
    #[error("the {what} of the pod with the UID {uid} could not be removed: {why}")]
    Leftover { what: &'static str, uid: PodUid, why: String },
    /// The logs could not be removed.
    #[error("logs could not be removed: {0}")]
    Logs(String),
    /// The iptables chains could not be removed.
    #[error("the iptables chains could not be removed")]
    Chains(#[from] IptablesError),
    /// A file of hostlet's own could not be removed.
    #[error(transparent)]
    File(#[from] SysError),
    /// The work on the host's files panicked.
    #[error("removing files panicked")]
    Step(#[from] tokio::task::JoinError),
}

/// Performs purges on this host.
pub(crate) struct Purger {
    pub runtime: Arc<dyn RuntimeService>,
    /// The daemon's directory (`--root-dir`).
    pub root_dir: PathBuf,
    /// The layout of container logs.
    pub logs: LogLayout,
    /// Pod cgroups; `None` with `cgroupsPerQOS: false`, or if they cannot be used.
    pub cgroups: Option<Arc<Cgroups>>,
    /// The host's mounts: nothing is removed across one.
    pub mounts: Arc<dyn Mounts>,
    /// The iptables programs of the families.
    pub iptables: Vec<(PathBuf, Family)>,
}

impl Purger {
    /// Performs the plan, and returns what failed. Performed again, it removes the rest.
    pub(crate) async fn perform(&self, plan: &PurgePlan) -> Vec<PurgeError> {
        let ended = join_all(plan.pods.iter().map(async |pod| (pod, self.end(pod).await))).await;
        let mut failed = Vec::new();
        let mut kept = HashSet::new();
        for (pod, result) in ended {
            if let Err(error) = result {
                // It may still use what it has on the host.
                kept.insert(pod.uid.clone());
                failed.push(error);
            }
        }
        let gone: HashSet<PodUid> = plan.uids.iter().filter(|uid| !kept.contains(*uid)).cloned().collect();
        failed.extend(self.clean(gone).await);
        if plan.has_chains {
            for (program, family) in &self.iptables {
                match remove_iptables_chains(program, *family).await {
                    Ok(()) | Err(IptablesError::Missing { .. }) => {}
                    Err(error) => failed.push(error.into()),
                }
            }
        }
        if failed.is_empty() {
            failed.extend(self.remove_own(&plan.files));
        }
        failed
    }

    /// Ends a pod within the grace periods of its containers, and removes what the runtime has of it.
    async fn end(&self, pod: &PodRef) -> Result<(), PurgeError> {
        let failed = |source| PurgeError::Pod { pod: pod.clone(), source };
        let (runtime, uid) = (&self.runtime, Some(&pod.uid));
        let containers = runtime.list_containers(uid).await.map_err(failed)?;
        let stops = containers.iter().map(async |container| {
            match container.state {
                ContainerState::Running | ContainerState::Unknown => {
                    let status = runtime.container_status(&container.id).await;
                    let grace = status.ok().and_then(|status| status.grace_seconds).unwrap_or(GRACE_SECONDS);
                    runtime.stop_container(&container.id, grace).await?;
                }
                ContainerState::Created | ContainerState::Exited => {}
            }
            runtime.remove_container(&container.id).await
        });
        let stopped: Result<(), CriError> = join_all(stops).await.into_iter().collect();
        stopped.map_err(failed)?;
        for sandbox in &*runtime.list_sandboxes(uid).await.map_err(failed)? {
            runtime.stop_sandbox(&sandbox.id).await.map_err(failed)?;
            runtime.remove_sandbox(&sandbox.id).await.map_err(failed)?;
        }
        let left = runtime.list_containers(uid).await.map_err(failed)?.len()
            + runtime.list_sandboxes(uid).await.map_err(failed)?.len();
        if left == 0 { Ok(()) } else { Err(PurgeError::StillThere(pod.clone())) }
    }

    /// Removes volumes, directories, logs and cgroups of these pods.
    async fn clean(&self, gone: HashSet<PodUid>) -> Vec<PurgeError> {
        let leftover = |what, uid: &PodUid, why| PurgeError::Leftover { what, uid: uid.clone(), why };
        let (mut failed, mut kept) = (Vec::new(), HashSet::new());
        let threads = VolumeThreads::default();
        for uid in &gone {
            if let Err(error) = volume::tear_down(&self.root_dir, uid, &self.mounts, &threads).await {
                failed.push(leftover("volumes", uid, error_chain(&error)));
                kept.insert(uid.clone());
            }
        }
        let listed = self.runtime.list_containers(None).await.unwrap_or_default();
        let running: HashSet<ContainerId> = listed.iter().map(|container| container.id.clone()).collect();
        let (root, logs) = (self.root_dir.clone(), self.logs.clone());
        let (cgroups, mounts) = (self.cgroups.clone(), self.mounts.clone());
        let work = move || {
            for uid in &gone {
                // What is in its directory is still in use.
                let removed = if kept.contains(uid) { Ok(()) } else { remove_pod_dir(&root, uid, &*mounts) };
                if let Err(error) = removed {
                    failed.push(leftover("directory", uid, error_chain(&error)));
                }
                if let Some(Err(error)) = cgroups.as_ref().map(|cgroups| cgroups.remove_pod(uid)) {
                    failed.push(leftover("cgroup", uid, error_chain(&error)));
                }
            }
            if !gone.is_empty() {
                let errors = logs.remove_pods(&gone).failed.into_iter();
                let errors =
                    errors.chain(logs.remove_dangling_links(&running, |uid| gone.contains(uid)).failed);
                failed.extend(errors.map(|error| PurgeError::Logs(error_chain(&error))));
            }
            failed
        };
        file_work(work).await.unwrap_or_else(|error| vec![PurgeError::Step(error)])
    }

    fn remove_own(&self, files: &[PathBuf]) -> Vec<PurgeError> {
        let mut failed: Vec<_> =
            files.iter().filter_map(|file| remove_tree(file).err()).map(PurgeError::File).collect();
        let _ = fs::remove_dir(pods_dir(&self.root_dir));
        let left = remains(&self.root_dir);
        // hostlet created them if nothing else is in them.
        if left.iter().all(|path| is_unused(&self.root_dir, path)) {
            for dir in &left {
                let _ = fs::remove_dir(dir);
            }
            failed.extend(unshare_dir(&self.root_dir, &*self.mounts).err().map(PurgeError::File));
            let _ = fs::remove_dir(&self.root_dir);
        }
        failed
    }
}

impl Purger {
    /// What the purge left in the root directory.
    pub(crate) fn remains(&self) -> Vec<PathBuf> {
        remains(&self.root_dir)
    }
}

#[cfg(test)]
#[path = "perform_tests.rs"]
mod tests;
