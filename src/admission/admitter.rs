//! The judgement: which of the pods that the sources name may run here. Pure, but for the memory of who was rejected and who
//! makes room.
//!
//! A pod is judged once. One that was admitted runs until its source drops it, also under a new daemon: what changed on
//! the node since is no reason to end what runs. One that the API server gave us and that was rejected stays rejected, so
//! it is not rejected for labels or taints of the Node before that was read anew. A
//! rejected manifest is judged again with every change of the sources: nobody else could make another pod of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::fit::{Unfit, fit};
use super::node::NodeView;
use super::pressure::kept_away;
use super::rejection::{RejectedPod, Rejection};
use super::sysctls::forbidden_sysctl;
use super::victims::victims;
use crate::pod::validation::FieldError;
use crate::pod::view::PodView;
use crate::pod::{
    AdmittedPod, DesiredPods, PodKill, PodPhase, StatusOverride, is_critical, pod_uid, seen_at,
};
use crate::source::SourceState;
use crate::source::api::ApiState;
use crate::types::PodUid;

const OS_LABEL: &str = "kubernetes.io/os";

/// Reason and message of a pod that makes room; upstream's.
pub(super) const PREEMPTING: &str = "Preempting";
pub(super) const PREEMPTED: &str = "Preempted in order to admit critical pod";

/// What its condition `DisruptionTarget` says; upstream's.
const DISRUPTION: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// What is judged, and by what.
pub(super) struct AdmissionInput<'a> {
    pub(super) manifests: &'a SourceState,
    pub(super) api: &'a ApiState,
    /// When which pods were admitted, by this daemon or one before it.
    pub(super) admitted: &'a HashMap<PodUid, Timestamp>,
    /// Pods of which nothing runs any more, nor will.
    pub(super) ended: &'a HashSet<PodUid>,
    pub(super) node: &'a NodeView,
    /// Whether the labels and taints in `node` are those of the cluster. New pods of the API server wait for that.
    pub(super) is_node_known: bool,
    /// The API server's pods for which the Node was read since they came; none if there is no Node to read, and every judgement
    /// is sure. Others are not rejected for labels and taints, which may have changed just before they came.
    pub(super) sure: Option<&'a HashSet<PodUid>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    pub(super) desired_pods: DesiredPods,
    pub(super) rejected: Vec<RejectedPod>,
    /// Whether a pod waits until others have made room.
    pub(super) is_waiting: bool,
    /// Pods that the Node, as it was last seen, does not take. They wait until it was read anew.
    pub(super) doubtful: HashSet<PodUid>,
}

/// A pod that a source names.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    pod: &'a Arc<Pod>,
    unsupported: &'a [FieldError],
    is_manifest: bool,
}

/// Judges.
#[derive(Debug)]
pub(super) struct Admitter {
    allowed_unsafe_sysctls: Vec<String>,
    /// The pods that were admitted: as long as its object is the same, so is what the other rooms have.
    admitted: HashMap<PodUid, Arc<AdmittedPod>>,
    rejected: HashMap<PodUid, RejectedPod>,
    /// Pods that were told to make room.
    preempted: BTreeMap<PodUid, PodKill>,
}

enum Verdict {
    Admitted,
    Rejected(Rejection),
    /// Others are making room for it.
    Waits,
    /// The Node does not take it, if it still is what was last seen.
    Doubtful,
}

impl Admitter {
    pub(super) fn new(allowed_unsafe_sysctls: Vec<String>) -> Self {
        Self {
            allowed_unsafe_sysctls,
            admitted: HashMap::new(),
            rejected: HashMap::new(),
            preempted: BTreeMap::new(),
        }
    }

    pub(super) fn review(&mut self, asked: &AdmissionInput<'_>) -> Judgement {
        let candidates = candidates(asked);
        let uids: HashSet<PodUid> = candidates.iter().map(|c| pod_uid(c.pod)).collect();
        self.admitted.retain(|uid, _| uids.contains(uid));
        self.rejected.retain(|uid, _| uids.contains(uid));
        self.preempted.retain(|uid, _| uids.contains(uid));
        let mut judgement = Judgement::default();
        judgement.desired_pods.ready = asked.manifests.ready && asked.api.ready;
        let mut new = Vec::new();
        for candidate in candidates {
            let uid = pod_uid(candidate.pod);
            match self.rejected.get(&uid) {
                Some(rejected) if !candidate.is_manifest => judgement.rejected.push(rejected.clone()),
                Some(_) => new.push(candidate),
                None if asked.admitted.contains_key(&uid) || is_leaving(candidate.pod) => {
                    judgement.desired_pods.pods.push(self.admit(candidate.pod));
                }
                None => new.push(candidate),
            }
        }
        for candidate in new {
            if !candidate.is_manifest && !asked.is_node_known {
                continue;
            }
            match self.verdict(candidate, asked, &judgement.desired_pods.pods) {
                Verdict::Admitted => {
                    self.rejected.remove(&pod_uid(candidate.pod));
                    judgement.desired_pods.pods.push(self.admit(candidate.pod));
                }
                Verdict::Rejected(rejection) => {
                    judgement.rejected.push(self.reject(candidate.pod, rejection))
                }
                Verdict::Waits => judgement.is_waiting = true,
                Verdict::Doubtful => drop(judgement.doubtful.insert(pod_uid(candidate.pod))),
            }
        }
        judgement.desired_pods.kills = self.preempted.clone();
        judgement
    }

    fn admit(&mut self, object: &Arc<Pod>) -> Arc<AdmittedPod> {
        let admitted =
            self.admitted.entry(pod_uid(object)).or_insert_with(|| AdmittedPod::new(object.clone()));
        if !Arc::ptr_eq(admitted.object(), object) {
            *admitted = AdmittedPod::new(object.clone());
        }
        admitted.clone()
    }

    /// A rejection that stands is the same value, so that nobody takes it for news.
    fn reject(&mut self, pod: &Arc<Pod>, rejection: Rejection) -> RejectedPod {
        let rejected = RejectedPod::new(pod, rejection);
        let known = self.rejected.entry(pod_uid(pod)).or_insert_with(|| rejected.clone());
        if *known != rejected {
            *known = rejected;
        }
        known.clone()
    }

    fn verdict(
        &mut self,
        candidate: Candidate<'_>,
        asked: &AdmissionInput<'_>,
        desired_pods: &[Arc<AdmittedPod>],
    ) -> Verdict {
        let pod = candidate.pod;
        if let Some(rejection) = self.unfit_anywhere(candidate, asked.node) {
            return Verdict::Rejected(rejection);
        }
        let is_active =
            |other: &&Arc<AdmittedPod>| !other.has_ended() && !asked.ended.contains(&other.reference.uid);
        let active: Vec<&AdmittedPod> = desired_pods.iter().filter(is_active).map(|other| &**other).collect();
        let staying: Vec<Arc<Pod>> = active
            .iter()
            .filter(|other| !self.preempted.contains_key(&other.reference.uid))
            .map(|other| other.object().clone())
            .collect();
        let active: Vec<&Pod> = active.iter().map(|other| &***other).collect();
        let unfit = match fit(pod, asked.node, &active) {
            Ok(()) => return Verdict::Admitted,
            Err(unfit) => unfit,
        };
        let is_sure = candidate.is_manifest || asked.sure.is_none_or(|sure| sure.contains(&pod_uid(pod)));
        let rejected = |unfit: &Unfit| match unfit {
            Unfit::Never { by_node: true, .. } if !is_sure => Verdict::Doubtful,
            unfit => unfit.rejection().map_or(Verdict::Waits, Verdict::Rejected),
        };
        if !is_critical(pod) {
            return rejected(&unfit);
        }
        let beside: Vec<&Pod> = staying.iter().map(|other| &**other).collect();
        match fit(pod, asked.node, &beside) {
            Ok(()) => Verdict::Waits,
            Err(unfit @ Unfit::Never { .. }) => rejected(&unfit),
            Err(Unfit::Lacking(lacks)) => match victims(pod, &lacks, &staying) {
                Some(victims) => {
                    let end = |victim: &Arc<Pod>| (pod_uid(victim), preemption());
                    self.preempted.extend(victims.iter().map(end));
                    Verdict::Waits
                }
                // Upstream says UnexpectedAdmissionError then, and no more than the amounts; what is lacking says more.
                None => rejected(&Unfit::Lacking(lacks)),
            },
        }
    }

    /// Why no room would help.
    fn unfit_anywhere(&self, candidate: Candidate<'_>, node: &NodeView) -> Option<Rejection> {
        let rejection = |reason: &'static str, message: String| Some(Rejection::new(reason, message));
        if !candidate.unsupported.is_empty() {
            // Upstream's reason for what its node-declared-features check rejects.
            return rejection("PodFeatureUnsupported", sentences(candidate.unsupported));
        }
        let pod = candidate.pod;
        if let Some(rejection) = kept_away(pod, &node.pressures) {
            return Some(rejection);
        }
        if let Some(message) = forbidden_sysctl(pod, &self.allowed_unsafe_sysctls) {
            return rejection("SysctlForbidden", message);
        }
        let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
        if label.is_some_and(|os| os != "linux") {
            let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
            return rejection("PodOSSelectorNodeLabelDoesNotMatch", message.to_owned());
        }
        let os = PodView::from(&**pod).spec.os.as_ref();
        if os.is_some_and(|os| os.name != "linux") {
            let message = "Failed to admit pod as the OS field doesn't match node OS";
            return rejection("PodOSNotSupported", message.to_owned());
        }
        None
    }
}

/// The pods that the sources name: those admitted before in that order, then manifests as they were seen, which are this
/// node's own, then the API server's as they were made.
fn candidates<'a>(asked: &AdmissionInput<'a>) -> Vec<Candidate<'a>> {
    let manifests = asked.manifests.pods.iter().map(|pod| Candidate {
        pod: &pod.pod,
        unsupported: &pod.unsupported,
        is_manifest: true,
    });
    let api = asked.api.pods.values().map(|pod| Candidate {
        pod: &pod.pod,
        unsupported: &pod.unsupported,
        is_manifest: false,
    });
    let mut all: Vec<Candidate<'_>> = manifests.chain(api).collect();
    all.sort_by_cached_key(|candidate| {
        let at = asked.admitted.get(&pod_uid(candidate.pod)).copied();
        let created = candidate.pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (at.is_none(), at, !candidate.is_manifest, created, seen_at(candidate.pod))
    });
    all
}

/// Whether the pod is on its way out already: there is nothing to judge.
fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || has_ended(pod)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| PodPhase::parse(status.phase.as_deref()?));
    phase.is_some_and(PodPhase::is_terminal)
}

/// Preemption leaves a pod its own grace period, as upstream.
fn preemption() -> PodKill {
    let status = StatusOverride {
        phase: PodPhase::Failed,
        reason: PREEMPTING.to_owned(),
        message: PREEMPTED.to_owned(),
        disruption: Some(DISRUPTION.into()),
    };
    PodKill { status, grace_seconds: None, evict: true }
}

/// What a pod asks for that hostlet does not do, as one text.
pub(super) fn sentences(unsupported: &[FieldError]) -> String {
    unsupported.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[path = "admitter_tests.rs"]
mod tests;
