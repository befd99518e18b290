//! Removes files, logs and cgroups of hostlet's own pods without a worker: those that were removed before this daemon started.
//! Reports what belongs to others and must never touch it. Does not decide which pods are known; the lifecycles pass that in.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use hostlet_base::{MemoryProtection, MemoryQos, PodUid, QosClass, QuietPeriod, error_chain};
use hostlet_dra::Claims;
use hostlet_host::cgroup::{Cgroups, ClassResources};
use hostlet_host::{Mounts, file_work};
use hostlet_observe::log::LogLayout;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{PodActivities, StatusCache};
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::{pod_cpu_request, pod_memory_request};
use hostlet_volume::Volumes;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};

use super::pods_limit::PodsLimit;
use super::protected_memory::ProtectedMemory;
use super::reserved_memory::ReservedMemory;
use crate::admission::AdmittedPods;
use crate::cri_config::{UserNamespaces, pod_dirs, remove_pod_dir};
use crate::lifecycle::{Janitor, KnownPods};
use crate::ownership::{OwnPods, about_remains, remains_of_others};

/// How long listing the host may be deferred until a quiet period: every pod that starts or terminates requests it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a sweep waits for drivers that unprepare claims. Their calls have a longer deadline, and go on.
const UNPREPARE_PATIENCE: Duration = Duration::from_secs(2);

/// Removes what pods of this node left on the host.
pub(crate) struct HostJanitor {
    /// The daemon's directory (`--root-dir`).
    pub root_dir: PathBuf,
    /// Signals when no pod starts or stops.
    pub quiet_period: QuietPeriod,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// Tears down volumes.
    pub volumes: Volumes,
    /// Has claimed devices unprepared.
    pub claims: Claims,
    /// The layout of container logs.
    pub logs: LogLayout,
    /// Pod cgroups; `None` with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Protection of memory; `None` without the feature gate `MemoryQoS`.
    pub memory_qos: Option<MemoryQos>,
    /// Protects the memory of all pods, and shows it.
    pub protected_memory: ProtectedMemory,
    /// Keeps memory of better QoS classes from worse ones; `None` without `qosReserved`.
    pub reserved_memory: Option<ReservedMemory>,
    /// The limit of all pods together; `None` without `cgroups`.
    pub pods_limit: Option<Arc<PodsLimit>>,
    /// The ID ranges of pods with user namespaces.
    pub user_namespaces: Arc<UserNamespaces>,
    /// The record of hostlet's own pods.
    pub own: OwnPods,
    /// Where a sentence about what others have here is published; `None` if they have nothing.
    pub foreign: watch::Sender<Option<String>>,
    /// The record of admitted pods.
    pub admitted: AdmittedPods,
    /// The statuses of pods.
    pub status_cache: StatusCache,
    /// What their workers do.
    pub activities: PodActivities,
    /// Forgets the pods of which nothing remains.
    pub timeline: Timeline,
}

#[async_trait]
impl Janitor for HostJanitor {
    async fn found(&self) -> HashSet<PodUid> {
        self.quiet_period.begins(Instant::now() + PATIENCE).await;
        let (root, logs, cgroups) = (self.root_dir.clone(), self.logs.clone(), self.cgroups.clone());
        let own = self.own.clone();
        let list = move || {
            let with_logs = logs.pods().map(|pods| pods.into_iter().map(|(uid, _)| uid).collect());
            let lists = [
                seen("directories", pod_dirs(&root)),
                seen("logs", with_logs),
                seen("cgroups", cgroups.map_or(Ok(Vec::new()), |cgroups| cgroups.list_pods())),
            ];
            // What cannot be listed may have something of every pod; none is forgotten because of that.
            let unseen = if lists.iter().all(Option::is_some) { Vec::new() } else { own.all() };
            lists.into_iter().flatten().flatten().chain(unseen).collect()
        };
        let mut found: HashSet<PodUid> = or_default(file_work(list).await);
        found.extend(self.claims.pods());
        found
    }

    async fn remove(&self, unknown: HashSet<PodUid>, known: KnownPods) {
        let KnownPods { pods: known, running } = known;
        let present: HashSet<PodUid> = known.union(&unknown).cloned().collect();
        self.own.retain(&present, Instant::now()).await;
        let unprepared = unknown.clone();
        let claims = release_claims(&self.claims, &unprepared);
        let (removed, foreign): (HashSet<PodUid>, HashSet<PodUid>) =
            unknown.into_iter().partition(|uid| self.own.has(uid));
        let (root, of) = (self.root_dir.clone(), removed.clone());
        let list = move || {
            let all = seen("directories", pod_dirs(&root)).unwrap_or_default().into_iter();
            all.filter(|uid| of.contains(uid)).collect::<Vec<_>>()
        };
        let directories = async {
            let uids = or_default(file_work(list).await);
            join_all(uids.iter().map(|uid| self.remove_directory(uid))).await
        };
        let (logs, cgroups, own) = (self.logs.clone(), self.cgroups.clone(), self.own.clone());
        let remove = move || {
            let failed = logs.remove_pods(&removed).failed;
            let links = logs.remove_dangling_links(&running, |uid| own.has(uid));
            for error in failed.into_iter().chain(links.failed) {
                tracing::warn!(error = error_chain(&error), "cannot remove the logs of a removed pod");
            }
            let Some(cgroups) = cgroups else { return };
            let all = seen("cgroups", cgroups.list_pods()).unwrap_or_default().into_iter();
            for uid in all.filter(|uid| removed.contains(uid)) {
                log_removal(&uid, "cgroup", cgroups.remove_pod(&uid));
            }
        };
        let (_, others, (), ()) = tokio::join!(directories, file_work(remove), self.report(foreign), claims);
        or_default(others);
    }

    async fn share(&self, active: Vec<Arc<AdmittedPod>>) {
        let Some(cgroups) = self.cgroups.clone() else { return };
        let mut resources = class_resources(&active, self.memory_qos.as_ref());
        if let Some(reserved) = &self.reserved_memory {
            reserved.limit(&mut resources, &active);
        }
        self.protected_memory.set(&resources);
        let (limit, protected) = (self.pods_limit.clone(), self.protected_memory.clone());
        let update = move || {
            let protect = protected.protect(&cgroups, resources.all_memory);
            if let Err(error) = protect.and_then(|()| cgroups.update_qos(&resources)) {
                tracing::warn!(error = error_chain(&error), "cannot update the cgroups of QoS classes");
            }
            if let Some(limit) = limit {
                limit.apply();
            }
        };
        or_default(file_work(update).await);
    }

    fn forget(&self, known: &HashSet<PodUid>) {
        self.timeline.retain(known);
        self.activities.retain(known);
        self.status_cache.retain(known);
        self.admitted.retain(known);
    }
}

impl HostJanitor {
    /// Reports what pods of others have on this host.
    async fn report(&self, foreign: HashSet<PodUid>) {
        let is_alone = foreign.is_empty();
        let look = {
            let (root, logs, cgroups) = (self.root_dir.clone(), self.logs.clone(), self.cgroups.clone());
            move || remains_of_others(&root, &logs, cgroups.as_deref(), |uid| !foreign.contains(uid))
        };
        let looked = if is_alone { Ok(Ok(BTreeMap::new())) } else { file_work(look).await };
        let about = match looked {
            Ok(Ok(others)) => about_remains(&others),
            // Unknown now; the next sweep is soon enough.
            Ok(Err(error)) => {
                tracing::debug!(error = error_chain(&error), "cannot look at what others have here");
                return;
            }
            Err(error) => return tracing::error!(%error, "looking at what others have here panicked"),
        };
        // Logged when there is something for the first time: beside another kubelet it changes with each of its pods.
        let mut is_new = false;
        self.foreign.send_if_modified(|known| {
            is_new = known.is_none();
            let is_news = *known != about;
            known.clone_from(&about);
            is_news
        });
        if let Some(about) = about.filter(|_| is_new) {
            tracing::warn!("on this node {about}");
        }
    }

    /// Removes the volumes and the directory of a removed pod. A volume on a server that does not respond delays the sweep as long
    /// as a pod waits for one, and keeps only this directory.
    async fn remove_directory(&self, uid: &PodUid) {
        if let Err(error) = self.volumes.tear_down(uid).await {
            return log_removal(uid, "volumes", Err(error));
        }
        let (root, mounts, users) =
            (self.root_dir.clone(), self.mounts.clone(), self.user_namespaces.clone());
        let of = uid.clone();
        let remove = move || users.release(&of).and_then(|()| remove_pod_dir(&root, &of, &*mounts));
        match file_work(remove).await {
            Ok(removed) => log_removal(uid, "directory", removed),
            Err(error) => tracing::error!(%uid, %error, "cleaning up the host panicked"),
        }
    }
}

/// Has the devices of removed pods unprepared. Whose claims these are is said by the record of claims, which is the kubelet's own. A
/// driver that is not there delays nothing: the next sweep tries again. One that hangs is waited for elsewhere.
async fn release_claims(claims: &Claims, removed: &HashSet<PodUid>) {
    let users = claims.pods();
    let releases = removed.iter().filter(|uid| users.contains(*uid)).map(|uid| async move {
        match timeout(UNPREPARE_PATIENCE, claims.release(uid)).await {
            Ok(released) => log_removal(uid, "claimed devices", released),
            Err(_) => tracing::info!(%uid, "the claimed devices of a removed pod are still being unprepared"),
        }
    });
    join_all(releases).await;
}

/// What the cgroups of the classes get. The protected memory of all pods includes the protected memory of burstable ones, which would otherwise
/// not be protected.
fn class_resources(active: &[Arc<AdmittedPod>], memory_qos: Option<&MemoryQos>) -> ClassResources {
    let of = |qos| active.iter().filter(move |pod| pod.qos == qos);
    let protected = |qos| {
        let request: i64 = of(qos).map(|pod| pod_memory_request(pod)).sum();
        memory_qos.map(|rules| rules.protection(qos, request)).unwrap_or_default()
    };
    let (guaranteed, burstable) = (protected(QosClass::Guaranteed), protected(QosClass::Burstable));
    ClassResources {
        burstable_milli_cpu: of(QosClass::Burstable).map(|pod| pod_cpu_request(pod)).sum(),
        all_memory: MemoryProtection { min: guaranteed.min + burstable.low, low: burstable.low },
        burstable_memory: burstable,
        ..ClassResources::default()
    }
}

/// The listed items; `None` if listing failed, which is logged.
fn seen<T, E: std::error::Error>(what: &str, result: Result<Vec<T>, E>) -> Option<Vec<T>> {
    let failed =
        |error: &E| tracing::warn!(error = error_chain(error), "cannot list the {what} of removed pods");
    result.inspect_err(failed).ok()
}

/// The result of blocking work; the default if it panicked.
fn or_default<T: Default>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| {
        tracing::error!(%error, "cleaning up the host panicked");
        T::default()
    })
}

fn log_removal<E: std::error::Error>(uid: &PodUid, what: &str, result: Result<(), E>) {
    match result {
        Ok(()) => tracing::info!(%uid, "removed the {what} of a removed pod"),
        Err(error) => {
            tracing::warn!(%uid, error = error_chain(&error), "cannot remove the {what} of a removed pod");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::pod;
    use super::*;
    use hostlet_dra::Operation;
    use hostlet_dra::fake::{FakeDevices, Outcome};
    use hostlet_telemetry::Metrics;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    /// A pod that uses the claim of its name.
    fn claiming(uid: &str) -> Pod {
        let spec = json!({
            "containers": [{"name": "c", "resources": {"claims": [{"name": "device"}]}}],
            "resourceClaims": [{"name": "device", "resourceClaimName": uid}],
        });
        let metadata = json!({"name": uid, "namespace": "ns", "uid": uid});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_hangs_does_not_hold_up_the_sweep_and_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let (devices, claims, task) = FakeDevices::new(root.path(), "gpu.example.com");
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(task.run(CancellationToken::new()));
        devices.register();
        for uid in ["hung", "fine"] {
            devices.api.set(uid, uid, &["gpu.example.com"], &[uid]);
            claims.prepare(&claiming(uid)).await.unwrap();
        }
        devices.driver.next(Outcome::Late);
        let sweep = |uids: &[&str]| uids.iter().map(|uid| PodUid::from(*uid)).collect::<HashSet<_>>();
        let began = Instant::now();
        release_claims(&claims, &sweep(&["hung"])).await;
        release_claims(&claims, &sweep(&["hung", "fine"])).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(devices.driver.prepared(), ["hung".to_owned()].into(), "the other one is done");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(devices.driver.prepared().is_empty() && claims.pods().is_empty());
        let unprepared = devices.driver.calls().into_iter().filter(|(made, _)| *made == Operation::Unprepare);
        assert_eq!(unprepared.count(), 2, "each once");
    }

    #[test]
    fn classes_have_the_memory_of_their_pods() {
        let active = [pod("g", "4Ki", "4Ki"), pod("b1", "8Ki", "16Ki"), pod("b2", "8Ki", "16Ki")];
        let tiered = MemoryQos { has_tiered_reservation: true, throttling_factor: None };
        let resources = class_resources(&active, Some(&tiered));
        assert_eq!(resources.burstable_milli_cpu, 200);
        assert_eq!(resources.all_memory, MemoryProtection { min: 20 << 10, low: 16 << 10 });
        assert_eq!(resources.burstable_memory, MemoryProtection { min: 0, low: 16 << 10 });
        let (metrics, shown) = (Metrics::default(), ProtectedMemory::default());
        shown.register(&metrics);
        shown.set(&resources);
        let text = metrics.encode();
        assert!(text.contains("\nkubelet_memory_qos_node_memory_min_bytes 4096\n"), "{text}");
        assert!(text.contains("\nkubelet_memory_qos_node_memory_low_bytes 16384\n"), "{text}");
        assert_eq!(
            class_resources(&active, Some(&MemoryQos::default())).all_memory,
            MemoryProtection::default()
        );
    }
}
