//! The door of evictions: what every eviction does, whatever its reason. Requests kills; terminates no pod itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodEvent, PodUid, WallClock, reasons};
use hostlet_observe::pleg::Cache;
use hostlet_observe::status::timeline::{Timeline, TimelineStep};
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::{AdmittedPod, DesiredPods, PodEvents, PodKill, PodPhase, StatusOverride};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::metrics::EvictionMetrics;

/// Upstream's grace period of an eviction that cannot wait.
pub(super) const IMMEDIATE_SECONDS: i64 = 1;

/// How often it is checked whether evicted pods are cleaned up (upstream's `podCleanupPollFreq`).
const CLEANUP_POLL: Duration = Duration::from_secs(1);

/// How many times before the node looks at its resources again: together upstream's `podCleanupTimeout`. Checks are counted, not seconds:
/// on a host that was frozen meanwhile, or is too busy, the pod had no more time to end than this daemon to wait.
const CLEANUP_POLLS: usize = 30;

/// Why and how a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EvictionReason {
    /// Label of the metric.
    pub(super) signal: &'static str,
    /// Message of the status and of the event.
    pub(super) message: String,
    /// Annotations of the event.
    pub(super) annotations: BTreeMap<String, String>,
    /// Its grace period.
    pub(super) grace_seconds: i64,
    /// Whether the node is the cause, so that the pod gets the condition `DisruptionTarget`.
    pub(super) is_of_node: bool,
}

impl EvictionReason {
    fn kill(&self) -> PodKill {
        let status = StatusOverride {
            phase: PodPhase::Failed,
            reason: reasons::EVICTED.to_owned(),
            message: self.message.clone(),
            disruption: self.is_of_node.then(|| self.message.clone().into()),
        };
        PodKill { status, grace_seconds: Some(self.grace_seconds), evict: true }
    }
}

/// Evicts pods. Clones share everything.
#[derive(Clone)]
pub(super) struct Evictor {
    pub(super) desired_pods: watch::Receiver<DesiredPods>,
    pub(super) status_cache: StatusCache,
    /// What the runtime still has of pods.
    pub(super) observed: Cache,
    pub(super) timeline: Timeline,
    pub(super) kills: watch::Sender<BTreeMap<PodUid, PodKill>>,
    /// The evicted pods that may not have released what they had, also those whose kill is forgotten because their source removed them.
    pub(super) ending: Arc<Mutex<BTreeSet<PodUid>>>,
    pub(super) events: PodEvents,
    pub(super) metrics: EvictionMetrics,
    pub(super) clock: WallClock,
}

impl Evictor {
    /// Forgets the kills of pods that no source names any more, until cancelled. Until then they are requested.
    pub(super) async fn forget_removed(mut self, cancel: &CancellationToken) {
        loop {
            let desired = self.desired_pods.borrow_and_update().clone();
            let uids: BTreeSet<&PodUid> = desired.pods.iter().map(|pod| &pod.reference.uid).collect();
            self.kills.send_if_modified(|kills| {
                let before = kills.len();
                kills.retain(|uid, _| uids.contains(uid));
                kills.len() != before
            });
            match cancel.run_until_cancelled(self.desired_pods.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Whether the pod runs, or may, and is not evicted yet.
    pub(super) fn may_evict(&self, uid: &PodUid) -> bool {
        let has_terminated = match self.status_cache.lifecycle(uid) {
            Some(LifecycleSummary::Terminated) => true,
            Some(LifecycleSummary::Active | LifecycleSummary::Terminating) | None => false,
        };
        !has_terminated && !self.kills.borrow().contains_key(uid)
    }

    /// Whether the pod is being evicted with a grace period longer than this, and still runs: a node in need does not wait for that.
    pub(super) fn may_hasten(&self, uid: &PodUid, grace_seconds: i64) -> bool {
        let is_slower = |kill: &PodKill| kill.grace_seconds.is_none_or(|own| own > grace_seconds);
        self.kills.borrow().get(uid).is_some_and(is_slower) && !self.has_released(uid)
    }

    pub(super) fn evict(&self, pod: &AdmittedPod, why: &EvictionReason) {
        let reference = &pod.reference;
        let message = &why.message;
        tracing::warn!(pod = %reference, uid = %reference.uid, message = message.trim_end(), "evicting a pod");
        let event = PodEvent::warning(reasons::EVICTED, message.clone());
        (self.events)(reference, None, &event.annotated(why.annotations.clone()));
        let now = self.clock.now();
        self.timeline.mark(reference, TimelineStep::Evicted, message.trim_end().to_owned(), now);
        self.metrics.evicted(why.signal);
        self.ending.lock().insert(reference.uid.clone());
        self.kills.send_modify(|kills| drop(kills.insert(reference.uid.clone(), why.kill())));
    }

    /// The evicted pods that have not released what they had.
    pub(super) fn ending(&self) -> BTreeSet<PodUid> {
        let mut ending = self.ending.lock();
        ending.retain(|uid| !self.has_released(uid));
        ending.clone()
    }

    /// Whether the pod has released what it had on this host, and the runtime what its containers wrote.
    pub(super) fn has_released(&self, uid: &PodUid) -> bool {
        self.status_cache.has_released(uid) && !self.observed.has_containers(uid)
    }

    /// Waits until every evicted pod has released what it had, but not for long.
    pub(super) async fn cleaned_up(&self) {
        for _ in 0..CLEANUP_POLLS {
            // Also at first: what was measured a moment ago still has what the pods used.
            sleep(CLEANUP_POLL).await;
            if self.ending().is_empty() {
                return;
            }
        }
        tracing::warn!("evicted pods are not cleaned up yet; the node is looked at again");
    }
}
