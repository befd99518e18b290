//! Removes what pods left on the host that no worker will remove: of pods that were gone before this daemon started.
//! Asks nobody whether a pod is wanted: the table says which are known.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use super::StatusBoard;
use super::dirs::{pod_dirs, remove_pod_dir};
use super::resources::{pod_cpu_request, qos_class};
use super::table::Janitor;
use crate::cgroup::Cgroups;
use crate::log::LogLayout;
use crate::sys::Mounts;
use crate::types::{ContainerId, PodUid, QosClass, error_chain};
use crate::volume;

/// The janitor of this host.
pub struct HostJanitor {
    /// Root of hostlet's own files.
    pub root_dir: PathBuf,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// Where container logs are.
    pub logs: LogLayout,
    /// Pod cgroups; none with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Where pod statuses are told.
    pub board: StatusBoard,
}

#[async_trait]
impl Janitor for HostJanitor {
    async fn sweep(&self, known: HashSet<PodUid>, running: HashSet<ContainerId>) {
        let (root, mounts) = (self.root_dir.clone(), self.mounts.clone());
        let (logs, cgroups) = (self.logs.clone(), self.cgroups.clone());
        let swept = tokio::task::spawn_blocking(move || {
            let is_left = |uid: &PodUid| !known.contains(uid);
            match pod_dirs(&root) {
                Ok(uids) => {
                    for uid in uids.into_iter().filter(is_left) {
                        match volume::tear_down(&root, &uid, &*mounts) {
                            Ok(()) => told(&uid, "directory", remove_pod_dir(&root, &uid, &*mounts)),
                            failed => told(&uid, "volumes", failed),
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "cannot look for orphaned pod directories")
                }
            }
            let failed = logs.remove_unknown_pods(&known).failed;
            for error in failed.into_iter().chain(logs.remove_dangling_links(&running).failed) {
                tracing::warn!(error = error_chain(&error), "cannot remove the logs of a pod that is gone");
            }
            let Some(cgroups) = cgroups else { return };
            match cgroups.list_pods() {
                Ok(uids) => {
                    for uid in uids.into_iter().filter(is_left) {
                        told(&uid, "cgroup", cgroups.remove_pod(&uid));
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "cannot look for orphaned pod cgroups")
                }
            }
        });
        if let Err(error) = swept.await {
            tracing::error!(%error, "sweeping the host ended early");
        }
    }

    async fn share(&self, active: Vec<Arc<Pod>>) {
        let Some(cgroups) = self.cgroups.clone() else { return };
        let burstable = active.iter().filter(|pod| qos_class(pod) == QosClass::Burstable);
        let milli_cpu: i64 = burstable.map(|pod| pod_cpu_request(pod)).sum();
        let updated = tokio::task::spawn_blocking(move || cgroups.update_qos(milli_cpu)).await;
        if let Ok(Err(error)) = updated {
            tracing::warn!(error = error_chain(&error), "cannot update the cgroup of burstable pods");
        }
    }

    fn forget(&self, known: &HashSet<PodUid>) {
        self.board.keep(known);
    }
}

fn told<E: std::error::Error>(uid: &PodUid, what: &str, result: Result<(), E>) {
    match result {
        Ok(()) => tracing::info!(%uid, "removed the {what} of a pod that is gone"),
        Err(error) => {
            tracing::warn!(%uid, error = error_chain(&error), "cannot remove the {what} of a pod that is gone");
        }
    }
}
