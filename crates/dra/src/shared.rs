//! What the handle and the task share: the claims, who waits for what, and the requests between the two. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hostlet_base::{Conflated, PodUid};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::drivers::Services;
use crate::health::HealthStore;
use crate::ledger::{AllocatedClaim, Claim, ClaimKey, ForgetError, Goal, Ledger};
use crate::metrics::ClaimMetrics;
use crate::pod_claims::pod_claims;
use crate::{ClaimSource, PrepareError, ReleaseError};

/// A request to the task.
pub(crate) enum Request {
    Prepare { pod: PodUid, claims: Vec<AllocatedClaim>, reply: oneshot::Sender<Result<(), PrepareError>> },
    Release { pod: PodUid, reply: oneshot::Sender<Result<(), ReleaseError>> },
    Forget { key: ClaimKey, reply: oneshot::Sender<Result<Vec<String>, ForgetError>> },
}

/// What the handle and the task share.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) source: Arc<dyn ClaimSource>,
    pub(crate) services: watch::Receiver<Services>,
    pub(crate) health: HealthStore,
    pub(crate) metrics: ClaimMetrics,
    /// Pods that should try again.
    pub(crate) news: Conflated<()>,
}

/// The claims, and who waits.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) ledger: Ledger,
    /// Whether the file has the ledger as it is.
    pub(crate) is_recorded: bool,
    /// The drivers that pods wait for.
    pub(crate) waiting: BTreeMap<PodUid, BTreeSet<String>>,
    /// The pods that wait until a claim is unprepared.
    pub(crate) busy: BTreeSet<PodUid>,
}

impl State {
    /// Whether each claim of a pod is used by it and `is_so`.
    pub(crate) fn all_of(&self, pod: &Pod, is_so: impl Fn(&Claim) -> bool) -> bool {
        let metadata = &pod.metadata;
        let (namespace, uid) = (metadata.namespace.as_deref(), metadata.uid.as_deref());
        let (namespace, uid) = (namespace.unwrap_or_default(), uid.unwrap_or_default());
        let is_used = |claim: &Claim| claim.pods.contains(uid) && is_so(claim);
        pod_claims(pod).is_ok_and(|claims| {
            claims.iter().all(|named| self.ledger.get(namespace, &named.name).is_some_and(is_used))
        })
    }

    /// Nothing of a pod is left.
    pub(crate) fn forget(&mut self, pod: &PodUid) {
        self.waiting.remove(pod);
        self.busy.remove(pod);
    }

    /// Whether claims that a pod used last are still being prepared.
    pub(crate) fn waits_for_prepare(&self, pod: &PodUid) -> bool {
        self.ledger.of_pod(pod).any(|(_, claim)| claim.goal == Goal::Prepared)
    }

    /// Records for which drivers a pod waits.
    pub(crate) fn note_missing(&mut self, pod: &PodUid, services: &Services) {
        let parts = self.ledger.of_pod(pod).flat_map(|(_, claim)| claim.parts.keys());
        let missing: BTreeSet<String> =
            parts.filter(|driver| !services.contains_key(*driver)).cloned().collect();
        if !missing.is_empty() {
            self.waiting.insert(pod.clone(), missing);
        }
    }
}
