//! Removes what pods left on the host that no worker will remove: of pods that were gone before this daemon started.
//! Asks nobody whether a pod is wanted: the table says which are known.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::pods_limit::PodsLimit;
use crate::admission::AdmittedPods;
use crate::cgroup::Cgroups;
use crate::cri_config::{pod_dirs, remove_pod_dir};
use crate::lifecycle::Janitor;
use crate::log::LogLayout;
use crate::pod::AdmittedPod;
use crate::pod::resources::pod_cpu_request;
use crate::status::StatusCache;
use crate::sys::{Mounts, file_work};
use crate::types::{ContainerId, PodUid, QosClass, QuietPeriod, error_chain};
use crate::volume;

/// How long a look over the host may wait for a quiet period: each pod that comes or goes asks for one.
const PATIENCE: Duration = Duration::from_secs(60);

/// The janitor of this host.
pub struct HostJanitor {
    /// Root of hostlet's own files.
    pub root_dir: PathBuf,
    /// When no pod starts or stops.
    pub quiet_period: QuietPeriod,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// Where container logs are.
    pub logs: LogLayout,
    /// Pod cgroups; none with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// What holds all pods together; none without `cgroups`.
    pub pods_limit: Option<Arc<PodsLimit>>,
    /// What is stored of pods.
    pub admitted: AdmittedPods,
    /// Where pod statuses are told.
    pub status_cache: StatusCache,
}

#[async_trait]
impl Janitor for HostJanitor {
    async fn found(&self) -> HashSet<PodUid> {
        self.quiet_period.begins(Instant::now() + PATIENCE).await;
        let (root, logs, cgroups) = (self.root_dir.clone(), self.logs.clone(), self.cgroups.clone());
        let look = move || {
            let mut found = listed("directories", pod_dirs(&root));
            found.extend(listed("logs", logs.pods()).into_iter().map(|(uid, _)| uid));
            found.extend(listed("cgroups", cgroups.map_or(Ok(Vec::new()), |cgroups| cgroups.list_pods())));
            found.into_iter().collect()
        };
        ended(file_work(look).await)
    }

    async fn remove(&self, gone: HashSet<PodUid>, running: HashSet<ContainerId>) {
        let (root, mounts) = (self.root_dir.clone(), self.mounts.clone());
        let (logs, cgroups) = (self.logs.clone(), self.cgroups.clone());
        let remove = move || {
            let are_gone = |uids: Vec<PodUid>| uids.into_iter().filter(|uid| gone.contains(uid));
            for uid in are_gone(listed("directories", pod_dirs(&root))) {
                match volume::tear_down(&root, &uid, &*mounts) {
                    Ok(()) => told(&uid, "directory", remove_pod_dir(&root, &uid, &*mounts)),
                    failed => told(&uid, "volumes", failed),
                }
            }
            let failed = logs.remove_pods(&gone).failed;
            for error in failed.into_iter().chain(logs.remove_dangling_links(&running).failed) {
                tracing::warn!(error = error_chain(&error), "cannot remove the logs of a pod that is gone");
            }
            let Some(cgroups) = cgroups else { return };
            for uid in are_gone(listed("cgroups", cgroups.list_pods())) {
                told(&uid, "cgroup", cgroups.remove_pod(&uid));
            }
        };
        ended(file_work(remove).await);
    }

    async fn share(&self, active: Vec<Arc<AdmittedPod>>) {
        let Some(cgroups) = self.cgroups.clone() else { return };
        let burstable = active.iter().filter(|pod| pod.qos == QosClass::Burstable);
        let milli_cpu: i64 = burstable.map(|pod| pod_cpu_request(pod)).sum();
        let limit = self.pods_limit.clone();
        let update = move || {
            if let Err(error) = cgroups.update_qos(milli_cpu) {
                tracing::warn!(error = error_chain(&error), "cannot update the cgroup of burstable pods");
            }
            if let Some(limit) = limit {
                limit.apply();
            }
        };
        ended(file_work(update).await);
    }

    fn forget(&self, known: &HashSet<PodUid>) {
        self.status_cache.keep(known);
        self.admitted.retain(known);
    }
}

/// What was listed; nothing, and a line in the log, when it could not be.
fn listed<T, E: std::error::Error>(what: &str, result: Result<Vec<T>, E>) -> Vec<T> {
    result.unwrap_or_else(|error| {
        tracing::warn!(error = error_chain(&error), "cannot look for the {what} of pods that are gone");
        Vec::new()
    })
}

/// What blocking work gave; the default if it panicked.
fn ended<T: Default>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| {
        tracing::error!(%error, "sweeping the host ended early");
        T::default()
    })
}

fn told<E: std::error::Error>(uid: &PodUid, what: &str, result: Result<(), E>) {
    match result {
        Ok(()) => tracing::info!(%uid, "removed the {what} of a pod that is gone"),
        Err(error) => {
            tracing::warn!(%uid, error = error_chain(&error), "cannot remove the {what} of a pod that is gone");
        }
    }
}
