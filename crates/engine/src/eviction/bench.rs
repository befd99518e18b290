//! The task on a node whose resources a test sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::node::{NodePressure, Pressure, PressureState, Signal, Threshold};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold, StallLimits};
use hostlet_base::testing::at;
use hostlet_base::{PodUid, Quantity, WallClock};
use hostlet_observe::pleg::Cache;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry, StatusCache};
use hostlet_pod::{AdmittedPod, DesiredPods, PodKill};
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::reclaim::{ReclaimError, Reclaimer, Reclaims};
use super::task::{Eviction, EvictionDeps};
use super::testing::FakeNode;
use super::usage::{ContainerConsumption, PodConsumption};

pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Leaves this much of a filesystem, whenever it frees.
pub(super) struct Frees {
    pub(super) kind: Reclaims,
    pub(super) node: FakeNode,
    pub(super) left_after: Option<(Signal, u64)>,
    pub(super) fails: bool,
    pub(super) calls: Arc<AtomicUsize>,
}

#[async_trait]
impl Reclaimer for Frees {
    fn reclaims(&self) -> Reclaims {
        self.kind
    }

    async fn reclaim(&self) -> Result<Option<String>, ReclaimError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some((signal, left)) = self.left_after {
            self.node.leave(signal, left);
        }
        match self.fails {
            true => Err(ReclaimError { source: "images are in use".into() }),
            false => Ok(Some("3 images (6.7GB) are in use, by pod ns/db".to_owned())),
        }
    }
}

pub(super) struct Bench {
    pub(super) node: FakeNode,
    desired_pods: watch::Sender<DesiredPods>,
    pub(super) kills: watch::Receiver<BTreeMap<PodUid, PodKill>>,
    pub(super) pressure: watch::Receiver<NodePressure>,
    pub(super) status_cache: StatusCache,
    /// Events of pods and of the node.
    pub(super) events: Arc<Mutex<Vec<String>>>,
    pub(super) annotations: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
    pub(super) metrics: Metrics,
    _tasks: JoinSet<()>,
}

impl Bench {
    pub(super) fn new(thresholds: &[EvictionThreshold], pods: &[Arc<AdmittedPod>]) -> Self {
        Self::with(FakeNode::default(), thresholds, pods, Vec::new())
    }

    pub(super) fn with(
        node: FakeNode,
        thresholds: &[EvictionThreshold],
        pods: &[Arc<AdmittedPod>],
        reclaimers: Vec<Box<dyn Reclaimer>>,
    ) -> Self {
        let desired = DesiredPods { ready: true, pods: pods.to_vec(), ..DesiredPods::default() };
        let desired_pods = watch::Sender::new(desired);
        let (kills_in, kills) = watch::channel(BTreeMap::new());
        let (pressure_in, pressure) = watch::channel(NodePressure::default());
        let (events, annotations) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (of_pods, of_node, annotated) = (events.clone(), events.clone(), annotations.clone());
        let (status_cache, metrics) = (StatusCache::default(), Metrics::default());
        pods.iter().for_each(|pod| status_cache.report(entry(pod, LifecycleSummary::Active)));
        let settings = EvictionSettings {
            stalls: StallLimits { some: None, full: Some(5) },
            thresholds: thresholds.to_vec(),
            pressure_transition: Duration::from_secs(300),
            max_pod_grace_seconds: 20,
            ..EvictionSettings::default()
        };
        let deps = EvictionDeps {
            desired_pods: desired_pods.subscribe(),
            status_cache: status_cache.clone(),
            observed: Cache::default(),
            timeline: Timeline::default(),
            limited: None,
            observer: Arc::new(node.clone()),
            reclaimers,
            pressure: pressure_in,
            kills: kills_in,
            events: Arc::new(move |pod, _, event| {
                of_pods.lock().push(format!("{}: {}", pod.name, event.reason));
                annotated.lock().push(event.annotations.clone());
            }),
            node_events: Arc::new(move |event| {
                of_node.lock().push(format!("{}: {}", event.reason, event.message))
            }),
            clock: WallClock::of_tokio(at(0)),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(Eviction::new(settings, deps, &metrics).run(CancellationToken::new()));
        Self {
            node,
            desired_pods,
            kills,
            pressure,
            status_cache,
            events,
            annotations,
            metrics,
            _tasks: tasks,
        }
    }

    pub(super) async fn killed(&mut self, pod: &str) -> PodKill {
        let wait = self.kills.wait_for(|kills| kills.contains_key(&PodUid::from(pod)));
        let kills = timeout(PATIENCE, wait).await.expect("it is not evicted").unwrap();
        kills[&PodUid::from(pod)].clone()
    }

    pub(super) async fn nobody_else(&mut self, killed: usize) {
        let wait = self.kills.wait_for(|kills| kills.len() > killed);
        assert!(timeout(PATIENCE, wait).await.is_err(), "{:?}", self.kills.borrow().keys());
    }

    /// Its source removes the pod.
    pub(super) fn removed(&self, pod: &Arc<AdmittedPod>) {
        self.desired_pods.send_modify(|desired| desired.pods.retain(|it| it.reference != pod.reference));
    }

    /// The kubelet stopped the pod, or also cleaned up.
    pub(super) fn ended(&self, pod: &Arc<AdmittedPod>, has_released: bool) {
        let entry = entry(pod, LifecycleSummary::Terminated);
        self.status_cache.report(PodStatusEntry { has_released, ..entry });
    }

    pub(super) async fn pressed(&mut self, pressure: Pressure, state: PressureState) {
        let wait = self.pressure.wait_for(|known| known.states.get(&pressure) == Some(&state));
        timeout(PATIENCE, wait).await.expect("the pressure is not reported").unwrap();
    }
}

pub(super) fn entry(pod: &Arc<AdmittedPod>, lifecycle: LifecycleSummary) -> PodStatusEntry {
    PodStatusEntry {
        pod: pod.clone(),
        status: Arc::default(),
        terminating_since: None,
        lifecycle,
        has_released: false,
    }
}

pub(super) fn hard(signal: Signal) -> EvictionThreshold {
    let value = Threshold::Amount(Quantity::count(100));
    EvictionThreshold { signal, value, grace: Duration::ZERO, min_reclaim: None }
}

pub(super) fn memory(bytes: u64) -> PodConsumption {
    let container = ContainerConsumption { memory: Some(bytes), ..ContainerConsumption::default() };
    PodConsumption {
        memory: Some(bytes),
        containers: [("c".into(), container)].into(),
        ..PodConsumption::default()
    }
}
