//! The task: pods that exceed a limit of their own, and pods that have to end because the node runs out of something.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::node::{NodeEvents, NodePressure};
use hostlet_base::settings::EvictionSettings;
use hostlet_base::{PodUid, WallClock};
use hostlet_observe::pleg::Cache;
use hostlet_observe::stats::StorageStats;
use hostlet_observe::status::StatusCache;
use hostlet_observe::status::timeline::Timeline;
use hostlet_pod::{DesiredPods, PodEvents, PodKill};
use hostlet_telemetry::Metrics;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::evictor::Evictor;
use super::local_storage::LocalStorage;
use super::metrics::EvictionMetrics;
use super::reclaim::Reclaimer;
use super::relief::{Relief, ReliefDeps};
use super::usage::NodeObserver;

/// What evictions observe, and where they report.
pub(crate) struct EvictionDeps {
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// Which pods have terminated.
    pub status_cache: StatusCache,
    /// What the runtime has of pods.
    pub observed: Cache,
    /// Receives evictions.
    pub timeline: Timeline,
    /// What is measured of pods with limits of their local storage; `None` if these are not enforced.
    pub limited: Option<LimitedStorage>,
    /// Observes the node.
    pub observer: Arc<dyn NodeObserver>,
    /// Free what nobody uses, before a pod has to end.
    pub reclaimers: Vec<Box<dyn Reclaimer>>,
    /// Receives the node's pressures.
    pub pressure: watch::Sender<NodePressure>,
    /// The kills, for admission.
    pub kills: watch::Sender<BTreeMap<PodUid, PodKill>>,
    /// Receives the events of pods.
    pub events: PodEvents,
    /// Receives the events of the node.
    pub node_events: NodeEvents,
    /// The wall clock.
    pub clock: WallClock,
}

/// What is measured of pods with limits.
pub(crate) struct LimitedStorage {
    /// Measures storage.
    pub storage: StorageStats,
    /// The daemon's directory.
    pub root_dir: PathBuf,
}

/// The task, which the app runs.
pub(crate) struct Eviction {
    evictor: Evictor,
    local_storage: Option<LocalStorage>,
    relief: Relief,
}

impl Eviction {
    /// Evicts nothing before it runs.
    pub(crate) fn new(settings: EvictionSettings, deps: EvictionDeps, metrics: &Metrics) -> Self {
        let eviction_metrics = EvictionMetrics::default();
        eviction_metrics.register(metrics);
        let evictor = Evictor {
            desired_pods: deps.desired_pods,
            status_cache: deps.status_cache,
            observed: deps.observed,
            timeline: deps.timeline,
            kills: deps.kills,
            ending: Arc::default(),
            events: deps.events,
            metrics: eviction_metrics,
            clock: deps.clock,
        };
        let limited = deps.limited;
        let local_storage =
            limited.map(|limited| LocalStorage::new(evictor.clone(), limited.storage, limited.root_dir));
        let relief_deps = ReliefDeps {
            observer: deps.observer,
            reclaimers: deps.reclaimers,
            pressure: deps.pressure,
            node_events: deps.node_events,
        };
        let relief = Relief::new(settings, evictor.clone(), relief_deps);
        Self { evictor, local_storage, relief }
    }

    /// Runs until cancelled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let local_storage = async {
            if let Some(local_storage) = self.local_storage {
                local_storage.run(&cancel).await;
            }
        };
        tokio::join!(self.evictor.forget_removed(&cancel), local_storage, self.relief.run(&cancel));
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
