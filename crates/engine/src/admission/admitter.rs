//! Admission: which of the sources' pods may run on this node. Pure, except that it remembers which pods were rejected and
//! which are preempted.
//!
//! Admission decides on a pod once. An admitted pod runs until its source drops it, also after a restart of the daemon: a change of
//! the node is no reason to terminate it. A rejected pod of the API server stays rejected, so it is not rejected because of
//! the Node's labels or taints before the Node was read again. A rejected static pod is reconsidered on every change of
//! the sources, since no controller would replace it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hostlet_base::{PodEvent, PodRef, PodUid, Quantity, ResourceList, reasons};
use hostlet_pod::validation::FieldError;
use hostlet_pod::view::PodView;
use hostlet_pod::{
    AdmissionId, AdmittedPod, ApiState, DesiredPods, PendingResizeReason, PodKill, PodPhase, RejectedPod,
    Rejection, ResizeState, StatusOverride, has_ended, is_critical, patience, pod_ref, pod_uid, seen_at,
    with_allocation,
};
use hostlet_resources::{AllocatedPod, Allocation, Allocator};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::admitted::Admitted;
use super::by_itself::{needs_strict_groups, rejection_by_itself};
use super::counts::PreemptionCounts;
use super::fit::{Unfit, fit};
use super::metrics::{ResizeMetrics, Resolution, Trigger};
use super::node::NodeView;
use super::resize::{self, ResizeLimits};
use super::shutdown::{self, NodeShutdown};
use super::victims::victims;
use crate::grants::{ExclusiveResources, GrantRequests, GrantState, GrantStates};
use crate::source::SourceState;

/// Upstream's reason and message for a preempted pod.
pub(super) const PREEMPTED: &str = "Preempted in order to admit critical pod";

/// Upstream's message of its condition `DisruptionTarget`.
const DISRUPTION: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// The pods to decide on, and the state that decisions depend on.
pub(super) struct AdmissionInput<'a> {
    pub(super) manifests: &'a SourceState,
    pub(super) api: &'a ApiState,
    /// The admitted pods, of this daemon or an earlier one.
    pub(super) admitted: &'a HashMap<PodUid, Admitted>,
    /// Pods of which something was made here: of two new pods, such a one was admitted by a daemon that was killed before it had stored that.
    pub(super) made: &'a HashSet<PodUid>,
    /// The pods with a status.
    pub(super) reported: &'a HashMap<PodUid, ReportedPod>,
    pub(super) node: &'a NodeView,
    /// Whether `node` has the labels and taints of the Node object. New pods of the API server wait for that.
    pub(super) is_node_known: bool,
    /// The API server's pods for which the Node was read after they arrived; `None` if there is no Node to read, and all
    /// decisions are final. Other pods are not rejected because of labels and taints, which may have changed just before.
    pub(super) confirmed: Option<&'a HashSet<PodUid>>,
    pub(super) shutdown: &'a NodeShutdown,
    pub(super) evicted: &'a BTreeMap<PodUid, PodKill>,
    /// What new pods were granted exclusively.
    pub(super) grants: &'a GrantStates,
    /// What is granted exclusively on this node.
    pub(super) exclusive: &'a ExclusiveResources,
    pub(super) now: Timestamp,
    /// The same on the clock of waits.
    pub(super) instant: Instant,
}

/// A pod with a status: an admitted one, or an earlier one with the same UID.
#[derive(Clone, Debug)]
pub(super) struct ReportedPod {
    pub(super) pod: Arc<AdmittedPod>,
    pub(super) has_terminated: bool,
}

/// The decisions.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) desired_pods: DesiredPods,
    pub(super) rejected: Vec<RejectedPod>,
    /// Pods that are preempted from now on.
    pub(super) newly_preempted: Vec<PodUid>,
    /// Events about requested resizes.
    pub(super) resizes: Vec<(PodRef, PodEvent)>,
    /// Whether a pod or a resize waits for other pods to terminate.
    pub(super) is_waiting: bool,
    /// When the next preempted pod is overdue: what waits for it then waits no longer.
    pub(super) overdue: Option<Instant>,
    /// Pods that do not match the Node as last seen. They wait until it was read again.
    pub(super) unconfirmed: HashSet<PodUid>,
    /// New pods that are not decided and that need something exclusive, or have it already.
    pub(super) granting: GrantRequests,
    /// How many pods are admitted from now on that need nothing of that.
    pub(super) admitted_without: usize,
    /// What these wait for, by pod: clauses for people.
    pub(super) awaited_grants: BTreeMap<PodUid, String>,
}

/// A pod that a source names.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    pod: &'a Arc<Pod>,
    unsupported: &'a [FieldError],
    is_manifest: bool,
}

/// Decides on pods, and remembers rejections and preemptions.
#[derive(Debug)]
pub(super) struct Admitter {
    allowed_unsafe_sysctls: Vec<String>,
    resize_limits: ResizeLimits,
    pub(super) metrics: ResizeMetrics,
    pub(super) preemptions: PreemptionCounts,
    /// How many pods had terminated at the last decisions.
    terminated: usize,
    admitted: HashMap<PodUid, ParsedPod>,
    /// Number of the last admission.
    admissions: u64,
    rejected: HashMap<PodUid, RejectedPod>,
    /// Pods that are being preempted.
    preempted: BTreeMap<PodUid, Preemption>,
}

/// A pod that is being preempted.
#[derive(Debug)]
struct Preemption {
    kill: PodKill,
    /// From then on, a critical pod does not wait for its end anymore, which may need that very pod.
    overdue: Instant,
}

/// An admitted pod. It is parsed again only when its object or its allocated resources change.
#[derive(Debug)]
struct ParsedPod {
    /// The object from its source, with the desired resources.
    source: Arc<Pod>,
    /// The pod with its allocated resources: of the same object if these are the desired ones.
    pod: Arc<AdmittedPod>,
    /// What it was granted.
    allocation: Allocation,
}

/// What the status under a pod's UID says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedStatus {
    /// Nothing: it is the status of an earlier pod with the same UID.
    Earlier,
    Active,
    Terminated,
}

enum Verdict {
    /// It is granted this.
    Admitted(Allocation),
    Rejected(Rejection),
    /// It waits for preempted pods to terminate.
    Waiting,
    /// It does not match the Node as last seen, which may be stale.
    Unconfirmed,
    /// It waits for something exclusive.
    Granting,
    /// It waits until somebody offers this resource.
    Unoffered(String),
}

impl Admitter {
    pub(super) fn new(allowed_unsafe_sysctls: Vec<String>, resize_limits: ResizeLimits) -> Self {
        Self {
            allowed_unsafe_sysctls,
            resize_limits,
            terminated: 0,
            metrics: ResizeMetrics::default(),
            preemptions: PreemptionCounts::default(),
            admitted: HashMap::new(),
            admissions: 0,
            rejected: HashMap::new(),
            preempted: BTreeMap::new(),
        }
    }

    pub(super) fn review(&mut self, input: &AdmissionInput<'_>) -> Decisions {
        let candidates = candidates(input);
        let uids: HashSet<PodUid> = candidates.iter().map(|c| pod_uid(c.pod)).collect();
        let terminated = input.reported.values().filter(|reported| reported.has_terminated).count();
        let mut trigger = match terminated > self.terminated {
            true => Trigger::PodTerminated,
            false => Trigger::PodUpdated,
        };
        self.terminated = terminated;
        for (_, gone) in self.admitted.extract_if(|uid, _| !uids.contains(uid)) {
            trigger = Trigger::PodsRemoved;
            self.metrics.resolved(&gone.pod, Resolution::Terminated, input.now);
        }
        self.rejected.retain(|uid, _| uids.contains(uid));
        self.preempted.retain(|uid, _| uids.contains(uid));
        let mut decisions = Decisions::default();
        decisions.desired_pods.ready = input.manifests.ready && input.api.ready;
        let (mut new, mut resizable) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let uid = pod_uid(candidate.pod);
            match self.rejected.get(&uid) {
                Some(rejected) if !candidate.is_manifest => decisions.rejected.push(rejected.clone()),
                Some(_) => new.push(candidate),
                None if input.admitted.contains_key(&uid) || is_terminating(candidate.pod) => {
                    let update = self.admitted.get(&uid).map(|known| &known.source);
                    let event = update.and_then(|before| resize::undeclared(candidate.pod, before));
                    decisions.resizes.extend(event.map(|event| (pod_ref(candidate.pod), event)));
                    let before = input.admitted.get(&uid).map(|admitted| &admitted.pod);
                    decisions.desired_pods.pods.push(self.admit(candidate.pod, before, None, input.now));
                    resizable.push(candidate);
                }
                None => new.push(candidate),
            }
        }
        if decisions.desired_pods.ready {
            // What others use is known only now.
            self.resize(resizable, input, trigger, &mut decisions);
        }
        for candidate in new {
            if !candidate.is_manifest && !input.is_node_known {
                continue;
            }
            if needs_strict_groups(candidate.pod) && input.node.strict_groups.is_none() {
                // Decided once the runtime has responded.
                continue;
            }
            match self.decide(candidate, input, &mut decisions) {
                Verdict::Admitted(granted) => {
                    self.rejected.remove(&pod_uid(candidate.pod));
                    let is_without = !input.exclusive.are_requested_by(candidate.pod);
                    decisions.admitted_without += usize::from(is_without);
                    let admitted = self.admit(candidate.pod, None, Some(granted), input.now);
                    decisions.desired_pods.pods.push(admitted);
                    continue;
                }
                Verdict::Rejected(rejection) => {
                    decisions.rejected.push(self.reject(candidate.pod, rejection));
                    continue;
                }
                Verdict::Waiting => decisions.is_waiting = true,
                Verdict::Unconfirmed => drop(decisions.unconfirmed.insert(pod_uid(candidate.pod))),
                Verdict::Granting => {}
                Verdict::Unoffered(resource) => {
                    let reason = format!(
                        "waits for {resource}: no device plugin offers it, and the Node does not list it"
                    );
                    decisions.awaited_grants.insert(pod_uid(candidate.pod), reason);
                    continue;
                }
            }
            if input.exclusive.are_requested_by(candidate.pod) {
                let uid = pod_uid(candidate.pod);
                decisions.granting.push(candidate.pod.clone());
                if let Some(GrantState::NotYet(reason)) = input.grants.get(&uid) {
                    decisions.awaited_grants.insert(uid, reason.clone());
                }
            }
        }
        let kills = self.preempted.iter().map(|(uid, preemption)| (uid.clone(), preemption.kill.clone()));
        decisions.desired_pods.kills = kills.collect();
        let overdue = self.preempted.values().map(|preemption| preemption.overdue);
        decisions.overdue = overdue.filter(|at| decisions.is_waiting && *at > input.instant).min();
        // A pod that is preempted during a shutdown terminates in the time that the shutdown leaves it; one that is evicted, at once.
        decisions.desired_pods.kills.extend(input.shutdown.kills.clone());
        decisions.desired_pods.kills.extend(input.evicted.clone());
        decisions
    }

    /// Admits a pod with the resources that were allocated to it `before`, if it was admitted already, or with what it is `granted`
    /// now.
    fn admit(
        &mut self,
        object: &Arc<Pod>,
        before: Option<&Arc<Pod>>,
        granted: Option<Allocation>,
        now: Timestamp,
    ) -> Arc<AdmittedPod> {
        let known = self.admitted.get(&pod_uid(object));
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.source, object)) {
            return known.pod.clone();
        }
        if let Some(known) = known {
            self.metrics.requested(&known.source, object);
        }
        let allocated = known.map(|known| known.pod.object()).or(before);
        let kept = allocated.and_then(|allocated| with_allocation(object, allocated));
        let mut resize = known.map(|known| known.pod.resize.clone()).unwrap_or_default();
        if let (Some(known), None) = (known, &kept) {
            // One that was taken back is over.
            self.metrics.resolved(&known.pod, Resolution::Reverted, now);
            resize.pending = None;
        }
        let admission = match (known, before) {
            (Some(known), _) => known.pod.admission,
            (None, Some(_)) => AdmissionId::Adopted,
            (None, None) => {
                self.admissions += 1;
                AdmissionId::Number(self.admissions)
            }
        };
        let object_now = kept.map_or_else(|| object.clone(), Arc::new);
        let pod = AdmittedPod::resized(object_now, resize, admission);
        let allocation = granted.unwrap_or_else(|| Allocation::of(&pod));
        let parsed = ParsedPod { source: object.clone(), pod: pod.clone(), allocation };
        self.admitted.insert(pod_uid(object), parsed);
        pod
    }

    /// Decides on the requested resizes, in their order.
    fn resize(
        &mut self,
        pods: Vec<Candidate<'_>>,
        input: &AdmissionInput<'_>,
        mut trigger: Trigger,
        decisions: &mut Decisions,
    ) {
        let known = &self.admitted;
        let requested = pods.into_iter().filter_map(|candidate| {
            let known = known.get(&pod_uid(candidate.pod))?;
            let differs = !Arc::ptr_eq(&known.source, known.pod.object());
            if !differs || is_terminating(candidate.pod) {
                return None;
            }
            match self.status(input, &known.pod.reference.uid) {
                // Its own status permits the resize.
                Some(ReportedStatus::Earlier) => {
                    decisions.is_waiting = true;
                    return None;
                }
                Some(ReportedStatus::Terminated) => return None,
                Some(ReportedStatus::Active) | None => {}
            }
            Some((resize::turn(candidate.pod, &known.pod, known.pod.resize.pending.as_ref()), candidate))
        });
        let mut requested: Vec<_> = requested.collect();
        requested.sort_by_key(|(turn, _)| *turn);
        for (_, candidate) in requested {
            if !candidate.is_manifest && !input.is_node_known {
                continue;
            }
            let uid = pod_uid(candidate.pod);
            let Some(before) = self.admitted.get(&uid).map(|known| known.pod.clone()) else { continue };
            let infeasible = self.resize_limits.infeasible(candidate.pod, &before);
            let label = infeasible.as_ref().map(|(_, label)| *label);
            let granted = match infeasible {
                Some((why, _)) => Err((why, PendingResizeReason::Infeasible)),
                None => match self.decide(candidate, input, decisions) {
                    Verdict::Admitted(granted) => Ok(granted),
                    Verdict::Rejected(why) => Err((why, PendingResizeReason::Deferred)),
                    Verdict::Waiting => {
                        let why =
                            Rejection::new(reasons::PREEMPTING, "waiting for preempted pods to terminate");
                        Err((why, PendingResizeReason::Deferred))
                    }
                    Verdict::Unconfirmed => {
                        decisions.unconfirmed.insert(uid);
                        continue;
                    }
                    Verdict::Granting | Verdict::Unoffered(_) => continue,
                },
            };
            let pending = before.resize.pending.as_ref();
            let (resized, granted, event) = match granted {
                Ok(granted) => {
                    self.metrics.allocated(&before, trigger, input.now);
                    trigger = Trigger::PodResized;
                    let resize = ResizeState { allocations: before.resize.allocations + 1, pending: None };
                    let event = resize::started(candidate.pod);
                    (before.resized_to(candidate.pod, resize), Some(granted), Some(event))
                }
                Err((why, reason)) => {
                    decisions.is_waiting |= reason == PendingResizeReason::Deferred;
                    let (refused, event) = resize::refused(candidate.pod, reason, &why, pending, input.now);
                    if let Some(label) = label.filter(|_| event.is_some()) {
                        self.metrics.infeasible(label);
                    }
                    let is_same = pending == Some(&refused);
                    let resize = ResizeState { pending: Some(refused), ..before.resize.clone() };
                    let pod = match is_same {
                        true => before.clone(),
                        false => before.resized_to(before.object(), resize),
                    };
                    (pod, None, event)
                }
            };
            decisions.resizes.extend(event.map(|event| (before.reference.clone(), event)));
            replace(&mut decisions.desired_pods.pods, &before, &resized);
            if let Some(known) = self.admitted.get_mut(&uid) {
                known.pod = resized;
                if let Some(granted) = granted {
                    known.allocation = granted;
                }
            }
        }
    }

    /// What the status under this UID says of the admitted pod.
    fn status(&self, input: &AdmissionInput<'_>, uid: &PodUid) -> Option<ReportedStatus> {
        let reported = input.reported.get(uid)?;
        let is_earlier =
            self.admitted.get(uid).is_some_and(|known| known.pod.admission != reported.pod.admission);
        Some(match (is_earlier, reported.has_terminated) {
            (true, _) => ReportedStatus::Earlier,
            (false, true) => ReportedStatus::Terminated,
            (false, false) => ReportedStatus::Active,
        })
    }

    /// Records a rejection. An unchanged one stays the same value, so that it causes no update.
    fn reject(&mut self, pod: &Arc<Pod>, rejection: Rejection) -> RejectedPod {
        let rejected = RejectedPod::new(pod, rejection);
        let known = self.rejected.entry(pod_uid(pod)).or_insert_with(|| rejected.clone());
        if *known != rejected {
            *known = rejected;
        }
        known.clone()
    }

    /// Decides on a pod, next to the others that are admitted. Notes which pods it preempts.
    fn decide(
        &mut self,
        candidate: Candidate<'_>,
        input: &AdmissionInput<'_>,
        decisions: &mut Decisions,
    ) -> Verdict {
        let before: HashSet<PodUid> = self.preempted.keys().cloned().collect();
        let verdict = self.verdict(candidate, input, &decisions.desired_pods.pods);
        let newly = self.preempted.keys().filter(|uid| !before.contains(*uid));
        decisions.newly_preempted.extend(newly.cloned());
        verdict
    }

    fn verdict(
        &mut self,
        candidate: Candidate<'_>,
        input: &AdmissionInput<'_>,
        desired_pods: &[Arc<AdmittedPod>],
    ) -> Verdict {
        let (pod, uid) = (candidate.pod, pod_uid(candidate.pod));
        if let Some(rejection) =
            rejection_by_itself(pod, candidate.unsupported, &self.allowed_unsafe_sysctls, input.node)
        {
            return Verdict::Rejected(rejection);
        }
        // Before the resources of the node, as upstream. An admitted pod, which is resized, has what it was granted.
        let is_new = !self.admitted.contains_key(&uid);
        if is_new
            && candidate.is_manifest
            && let Some(resource) = unoffered(pod, input)
        {
            return Verdict::Unoffered(resource);
        }
        if let Some(verdict) = grant(pod, input).filter(|_| is_new) {
            return verdict;
        }
        let is_active = |other: &&Arc<AdmittedPod>| {
            other.reference.uid != uid
                && !other.has_ended()
                && self.status(input, &other.reference.uid) != Some(ReportedStatus::Terminated)
        };
        // `admit` has recorded every desired pod.
        let allocation = |other: &PodUid| self.admitted.get(other).map(|known| &known.allocation);
        let active = desired_pods.iter().filter(is_active).filter_map(|other| {
            Some(AllocatedPod { pod: other.object(), allocation: allocation(&other.reference.uid)? })
        });
        let active: Vec<AllocatedPod<'_>> = active.collect();
        let is_staying = |other: &&AllocatedPod<'_>| !self.preempted.contains_key(&pod_uid(other.pod));
        let staying: Vec<AllocatedPod<'_>> = active.iter().filter(is_staying).copied().collect();
        let fits = fit(pod, input.node, &active);
        if input.shutdown.is_under_way {
            // Upstream checks this last. It preempts nothing for a pod that will not run.
            let other = fits.err().and_then(|unfit| unfit.rejection());
            return Verdict::Rejected(other.unwrap_or_else(shutdown::rejection));
        }
        let unfit = match fits {
            Ok(granted) => return Verdict::Admitted(granted),
            Err(unfit) => unfit,
        };
        let is_confirmed = candidate.is_manifest || input.confirmed.is_none_or(|uids| uids.contains(&uid));
        let rejected = |unfit: &Unfit| match unfit {
            Unfit::Never { by_node: true, .. } if !is_confirmed => Verdict::Unconfirmed,
            unfit => unfit.rejection().map_or(Verdict::Waiting, Verdict::Rejected),
        };
        if !is_critical(pod) {
            return rejected(&unfit);
        }
        let is_overdue = |other: &AllocatedPod<'_>| {
            self.preempted.get(&pod_uid(other.pod)).is_some_and(|victim| victim.overdue <= input.instant)
        };
        let awaited: Vec<AllocatedPod<'_>> = active.into_iter().filter(|other| !is_overdue(other)).collect();
        match fit(pod, input.node, &staying) {
            // Upstream gives up as well, and admits the pod.
            Ok(granted) if fit(pod, input.node, &awaited).is_ok() => Verdict::Admitted(granted),
            Ok(_) => Verdict::Waiting,
            Err(unfit @ Unfit::Never { .. }) => rejected(&unfit),
            Err(Unfit::Insufficient(shortages)) => match victims(pod, &shortages, &staying) {
                Some(victims) => {
                    let preempted = |victim: &AllocatedPod<'_>| {
                        let grace = PodView::from(victim.pod).spec.termination_grace_period_seconds;
                        let overdue = input.instant + patience(grace.unwrap_or_default());
                        (pod_uid(victim.pod), Preemption { kill: preemption(), overdue })
                    };
                    self.preempted.extend(victims.iter().map(preempted));
                    let first = shortages.first().map_or("", |shortage| &shortage.resource);
                    self.preemptions.preempted(victims.len(), first);
                    Verdict::Waiting
                }
                // Upstream reports UnexpectedAdmissionError with bare amounts; the shortage is more informative.
                None => rejected(&Unfit::Insufficient(shortages)),
            },
        }
    }
}

/// A resource of a manifest that neither a device plugin nor the Node has. The scheduler has counted those of other pods: what the node
/// does not have of them is the cluster's.
fn unoffered(pod: &Pod, input: &AdmissionInput<'_>) -> Option<String> {
    let offered = input.node.resources.capacity();
    let spec = PodView::from(pod).spec;
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut limits = containers.filter_map(|container| container.resources.as_ref()?.limits.as_ref());
    limits.find_map(|limits| {
        let limits = ResourceList::read(Some(limits));
        let is_unoffered = |(resource, amount): &(&str, Quantity)| {
            resource.contains('/')
                && amount.value() > 0
                && !input.exclusive.devices.contains(*resource)
                && !offered.contains(resource)
        };
        limits.iter().find(is_unoffered).map(|(resource, _)| resource.to_owned())
    })
}

/// The verdict about a new pod that needs something exclusive and does not have it.
fn grant(pod: &Pod, input: &AdmissionInput<'_>) -> Option<Verdict> {
    if !input.exclusive.are_requested_by(pod) {
        return None;
    }
    match input.grants.get(&pod_uid(pod)) {
        Some(GrantState::Granted) => None,
        Some(GrantState::NotYet(_)) | None => Some(Verdict::Granting),
        Some(GrantState::Rejected(rejection)) => Some(Verdict::Rejected(rejection.clone())),
    }
}

/// The sources' pods: those already admitted, in order of admission; then static pods, in the order in which they were seen; then
/// the API server's, in order of creation.
fn candidates<'a>(input: &AdmissionInput<'a>) -> Vec<Candidate<'a>> {
    let manifests = input.manifests.pods.iter().map(|pod| Candidate {
        pod: &pod.pod,
        unsupported: &pod.unsupported,
        is_manifest: true,
    });
    let api = input.api.pods.values().map(|pod| Candidate {
        pod: &pod.pod,
        unsupported: &pod.unsupported,
        is_manifest: false,
    });
    let mut all: Vec<Candidate<'_>> = manifests.chain(api).collect();
    all.sort_by_cached_key(|candidate| {
        let uid = pod_uid(candidate.pod);
        let at = input.admitted.get(&uid).map(|admitted| admitted.at);
        let created = candidate.pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (
            at.is_none(),
            at,
            !input.made.contains(&uid),
            !candidate.is_manifest,
            created,
            seen_at(candidate.pod),
        )
    });
    all
}

/// Whether the pod is already terminating or terminated, so that there is nothing to decide.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || pod.status.as_ref().is_some_and(has_ended)
}

/// How a preempted pod is killed: with its own grace period, as upstream.
fn preemption() -> PodKill {
    let status = StatusOverride {
        phase: PodPhase::Failed,
        reason: reasons::PREEMPTING.to_owned(),
        message: PREEMPTED.to_owned(),
        disruption: Some(DISRUPTION.into()),
    };
    PodKill { status, grace_seconds: None, evict: true }
}

/// Replaces a desired pod by its next version.
fn replace(pods: &mut [Arc<AdmittedPod>], before: &Arc<AdmittedPod>, after: &Arc<AdmittedPod>) {
    if let Some(place) = pods.iter_mut().find(|pod| Arc::ptr_eq(pod, before)) {
        place.clone_from(after);
    }
}

#[cfg(test)]
#[path = "admitter_tests.rs"]
mod tests;
