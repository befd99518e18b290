//! The task: has the storage of pods with limits measured, and requests the kill of those that exceed one. A kill is requested until the
//! source no longer names the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::{PodEvent, PodUid, WallClock, reasons};
use hostlet_observe::stats::{PodStorage, StorageStats};
use hostlet_observe::status::timeline::{Timeline, TimelineStep};
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::{AdmittedPod, DesiredPods, PodEvents, PodKill, is_critical};
use hostlet_telemetry::Metrics;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::limits::StorageLimits;
use super::metrics::EvictionMetrics;
use super::plan::{Breach, breach};

/// What evictions observe, and where they report.
pub(crate) struct EvictionDeps {
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// Which pods have terminated.
    pub status_cache: StatusCache,
    /// Receives evictions.
    pub timeline: Timeline,
    /// Measures storage.
    pub storage: StorageStats,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// The kills, for admission.
    pub kills: watch::Sender<BTreeMap<PodUid, PodKill>>,
    /// Receives the events of pods.
    pub events: PodEvents,
    pub clock: WallClock,
}

struct LimitedPod {
    pod: Arc<AdmittedPod>,
    limits: StorageLimits,
}

/// The task, which the app runs.
pub(crate) struct Eviction {
    deps: EvictionDeps,
    metrics: EvictionMetrics,
    pods: BTreeMap<PodUid, LimitedPod>,
    /// The critical pods beyond a limit, which was logged.
    spared: BTreeSet<PodUid>,
}

impl Eviction {
    /// Evicts nothing before it runs.
    pub(crate) fn new(deps: EvictionDeps, metrics: &Metrics) -> Self {
        let eviction_metrics = EvictionMetrics::default();
        eviction_metrics.register(metrics);
        Self { deps, metrics: eviction_metrics, pods: BTreeMap::new(), spared: BTreeSet::new() }
    }

    /// Runs until cancelled.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let mut storage = self.deps.storage.storage();
        self.follow();
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // These are cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.deps.desired_pods.changed() => self.follow(),
                Ok(()) = storage.changed() => {
                    let storage = storage.borrow_and_update().clone();
                    self.review(&storage);
                }
            }
        }
    }

    /// Adopts the desired pods: has those with limits measured, and forgets the kills of others.
    fn follow(&mut self) {
        let desired = self.deps.desired_pods.borrow_and_update().clone();
        let uids: BTreeSet<&PodUid> = desired.pods.iter().map(|pod| &pod.reference.uid).collect();
        self.deps.kills.send_if_modified(|kills| {
            let before = kills.len();
            kills.retain(|uid, _| uids.contains(uid));
            kills.len() != before
        });
        let is_killed = |uid: &PodUid| desired.kills.contains_key(uid);
        let known = std::mem::take(&mut self.pods);
        let alive = desired.pods.iter().filter(|pod| !pod.has_ended() && !is_killed(&pod.reference.uid));
        let limited = alive.filter_map(|pod| {
            let uid = pod.reference.uid.clone();
            let limits = match known.get(&uid) {
                Some(known) if Arc::ptr_eq(&known.pod, pod) => known.limits.clone(),
                Some(_) | None => StorageLimits::of(pod)?,
            };
            Some((uid, LimitedPod { pod: pod.clone(), limits }))
        });
        self.pods = limited.collect();
        self.spared.retain(|uid| self.pods.contains_key(uid));
        let root = &self.deps.root_dir;
        let places =
            self.pods.iter().map(|(uid, limited)| (uid.clone(), limited.limits.places(&limited.pod, root)));
        self.deps.storage.measure(places.collect());
    }

    /// Evicts the pods that exceed a limit.
    fn review(&mut self, storage: &BTreeMap<PodUid, PodStorage>) {
        let mut evicted = Vec::new();
        for (uid, limited) in &self.pods {
            let Some(breach) = storage.get(uid).and_then(|storage| breach(&limited.limits, storage)) else {
                self.spared.remove(uid);
                continue;
            };
            if self.deps.kills.borrow().contains_key(uid) || self.has_terminated(uid) {
                continue;
            }
            if is_critical(&limited.pod) {
                if self.spared.insert(uid.clone()) {
                    let pod = &limited.pod.reference;
                    let message = breach.message.trim_end();
                    tracing::warn!(%pod, uid = %pod.uid, message, "a pod exceeds a limit, and is not evicted because it is critical");
                }
                continue;
            }
            evicted.push((limited.pod.clone(), breach));
        }
        for (pod, breach) in evicted {
            self.evict(&pod, &breach);
        }
    }

    fn has_terminated(&self, uid: &PodUid) -> bool {
        match self.deps.status_cache.lifecycle(uid) {
            Some(LifecycleSummary::Terminated) => true,
            Some(LifecycleSummary::Active | LifecycleSummary::Terminating) | None => false,
        }
    }

    fn evict(&self, pod: &AdmittedPod, breach: &Breach) {
        let reference = &pod.reference;
        let message = &breach.message;
        tracing::warn!(pod = %reference, uid = %reference.uid, message = message.trim_end(), "evicting a pod");
        (self.deps.events)(reference, None, &PodEvent::warning(reasons::EVICTED, message.clone()));
        let now = self.deps.clock.now();
        self.deps.timeline.mark(reference, TimelineStep::Evicted, message.trim_end().to_owned(), now);
        self.metrics.evicted(breach.signal);
        self.deps.kills.send_modify(|kills| drop(kills.insert(reference.uid.clone(), breach.kill())));
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
