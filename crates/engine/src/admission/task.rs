//! The admission task: decides again whenever the sources or the node change, and publishes the decisions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use hostlet_base::node::{NodePressure, NodeReader, OwnNode};
use hostlet_base::{PodEvent, PodUid, WallClock, reasons, sleep_until};
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::{ApiState, DesiredPods, PodEvents, PodKill, RejectedPod, pod_ref, pod_uid};
use hostlet_resources::NodeResources;
use hostlet_runtime::cri::RuntimeStatus;
use hostlet_telemetry::{Heartbeat, Metrics};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::admitter::{AdmissionInput, Admitter, Decisions, PREEMPTED, ReportedPod, is_terminating};
use super::by_itself::unsupported_message;
use super::counts::{CountedPods, RejectionCounts};
use super::node::NodeView;
use super::reread::Reread;
use super::{AdmittedPods, NodeShutdown, ResizeLimits};
use crate::grants::{ExclusiveResources, GrantMetrics, GrantRequests, GrantStates};
use crate::ownership::OwnPods;
use crate::source::SourceState;

/// The inputs of decisions.
pub(crate) struct AdmissionInputs {
    /// The static pods.
    pub manifests: watch::Receiver<SourceState>,
    /// The API server's pods; ready and empty on a standalone node.
    pub api: watch::Receiver<ApiState>,
    /// The properties of this node that do not change at run time.
    pub own: NodeView,
    /// The node's allocatable resources: the value that the Node's status reports.
    pub own_node: watch::Receiver<OwnNode>,
    /// The node's pressures: the value that the Node's conditions report.
    pub pressure: watch::Receiver<NodePressure>,
    /// The Node object; `None` before registration and on a standalone node.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Reads the Node again, into `node`; `None` on a standalone node.
    pub reader: Option<Arc<dyn NodeReader>>,
    /// The statuses, which show which pods have terminated.
    pub status_cache: StatusCache,
    /// Permitted unsafe sysctls: names, or prefixes followed by `*` (`allowedUnsafeSysctls`).
    pub allowed_unsafe_sysctls: Vec<String>,
    pub resize_limits: ResizeLimits,
    /// The runtime's last status; `None` before its first response.
    pub runtime: watch::Receiver<Option<RuntimeStatus>>,
    /// What a shutdown of the node demands.
    pub shutdown: watch::Receiver<NodeShutdown>,
    /// The pods of which something was made here.
    pub own_pods: OwnPods,
    /// The pods that are evicted.
    pub evicted: watch::Receiver<BTreeMap<PodUid, PodKill>>,
    /// What new pods were granted exclusively.
    pub grants: watch::Receiver<GrantStates>,
    /// The resources of device plugins, also of those that are away. Not from the grants task, which may be busy with a plugin that hangs:
    /// a pod would be admitted without its device.
    pub devices: watch::Receiver<BTreeSet<String>>,
    /// Whether guaranteed pods are granted CPUs or memory.
    pub has_static_policy: bool,
}

/// Where decisions are published.
pub(crate) struct AdmissionOutputs {
    /// The admitted pods.
    pub desired_pods: watch::Sender<DesiredPods>,
    pub rejected: watch::Sender<Vec<RejectedPod>>,
    /// The record of admitted pods.
    pub admitted: AdmittedPods,
    /// The new pods that are to be granted something exclusive.
    pub granting: watch::Sender<GrantRequests>,
    /// Counts the pods that are admitted without that.
    pub grant_metrics: GrantMetrics,
    /// What new pods wait for, as clauses for people.
    pub awaited: watch::Sender<BTreeMap<PodUid, String>>,
    /// Receives the events of pods.
    pub events: PodEvents,
    /// Receives the decisions.
    pub timeline: Timeline,
    pub clock: WallClock,
}

/// The admission task, which the app runs.
pub(crate) struct Admission {
    inputs: AdmissionInputs,
    outputs: AdmissionOutputs,
    admitter: Admitter,
    /// The reported messages about unsupported fields of running pods.
    reported_unsupported: HashMap<PodUid, String>,
    /// The state that the last decisions were made from.
    decided_from: Option<Snapshot>,
    /// Whether a pod or a resize waits for other pods to terminate.
    is_waiting: bool,
    /// When it no longer waits for one of them.
    overdue: Option<Instant>,
    /// Rereads the Node for pods that do not match it as last seen.
    reread: Reread,
    heartbeat: Heartbeat,
    rejections: RejectionCounts,
}

/// The state that decisions are made from, apart from which pods have terminated.
struct Snapshot {
    manifests: SourceState,
    api: ApiState,
    node: NodeView,
    is_node_known: bool,
    shutdown: NodeShutdown,
    evicted: BTreeMap<PodUid, PodKill>,
    grants: GrantStates,
    exclusive: ExclusiveResources,
}

impl Snapshot {
    /// Compares pods by identity: the API server echoes every status that was written, and such updates keep the pod object.
    fn is_same(&self, other: &Self) -> bool {
        let manifests = || self.manifests.pods.iter().zip(&other.manifests.pods);
        let api = || self.api.pods.values().zip(other.api.pods.values());
        self.manifests.ready == other.manifests.ready
            && self.api.ready == other.api.ready
            && self.is_node_known == other.is_node_known
            && self.manifests.pods.len() == other.manifests.pods.len()
            && self.api.pods.len() == other.api.pods.len()
            && manifests().all(|(a, b)| Arc::ptr_eq(a, b))
            && api().all(|(a, b)| Arc::ptr_eq(&a.pod, &b.pod))
            && self.node == other.node
            && self.shutdown == other.shutdown
            && self.evicted == other.evicted
            && self.grants == other.grants
            && self.exclusive == other.exclusive
    }
}

impl Admission {
    /// Decides from `inputs` and publishes to `outputs`.
    pub(crate) fn new(mut inputs: AdmissionInputs, outputs: AdmissionOutputs) -> Self {
        let admitter = Admitter::new(inputs.allowed_unsafe_sysctls.clone(), inputs.resize_limits);
        let reread = Reread::new(inputs.reader.take());
        Self {
            inputs,
            outputs,
            admitter,
            reported_unsupported: HashMap::new(),
            decided_from: None,
            is_waiting: false,
            overdue: None,
            reread,
            heartbeat: Heartbeat::default(),
            rejections: RejectionCounts::default(),
        }
    }

    /// Counts in these metrics.
    pub(crate) fn counted_in(self, metrics: &Metrics) -> Self {
        self.admitter.metrics.register(metrics);
        self.admitter.preemptions.register(metrics);
        self.rejections.register(metrics);
        let pods = CountedPods {
            desired_pods: self.outputs.desired_pods.subscribe(),
            rejected: self.outputs.rejected.subscribe(),
            api: self.inputs.api.clone(),
            status_cache: self.inputs.status_cache.clone(),
        };
        pods.register(metrics);
        self
    }

    /// Answers as this heartbeat.
    pub(crate) fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Runs until cancelled.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let mut changes = self.inputs.status_cache.changes();
        loop {
            self.update();
            // Biased, so that every run of a simulation is the same. No arm starves another: an update takes in all of them.
            tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe as documented there.
                () = self.heartbeat.asked() => {}
                // These are cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.inputs.manifests.changed() => {}
                Ok(()) = self.inputs.api.changed() => {}
                Ok(()) = self.inputs.node.changed() => {}
                Ok(()) = self.inputs.own_node.changed() => {}
                Ok(()) = self.inputs.pressure.changed() => {}
                Ok(()) = self.inputs.shutdown.changed() => {}
                Ok(()) = self.inputs.runtime.changed() => {}
                Ok(()) = self.inputs.evicted.changed() => {}
                Ok(()) = self.inputs.grants.changed() => {}
                Ok(()) = self.inputs.devices.changed() => {}
                // Statuses change all the time; that matters only to what waits for other pods to terminate.
                Ok(()) = changes.changed(), if self.is_waiting => {}
                // Cancel-safe: a sleep.
                () = sleep_until(self.overdue), if self.overdue.is_some() => {}
                // Cancel-safe as documented there.
                () = self.reread.done() => self.decided_from = None,
            }
        }
    }

    /// Decides again if anything relevant has changed.
    fn update(&mut self) {
        let node = self.inputs.node.borrow_and_update().clone();
        let resources = NodeResources::new(self.inputs.own_node.borrow_and_update().allocatable.clone());
        let pressures = self.inputs.pressure.borrow_and_update().active();
        let strict_groups = self.inputs.runtime.borrow_and_update().as_ref().map(supports_strict_groups);
        let own = NodeView { resources, pressures, strict_groups, ..self.inputs.own.clone() };
        let exclusive = ExclusiveResources {
            devices: self.inputs.devices.borrow_and_update().clone(),
            numa: self.inputs.has_static_policy,
        };
        let view = node.as_ref().map_or_else(|| own.clone(), |node| own.with_node(node));
        let snapshot = Snapshot {
            manifests: self.inputs.manifests.borrow_and_update().clone(),
            api: self.inputs.api.borrow_and_update().clone(),
            node: view.without(&exclusive),
            is_node_known: node.is_some(),
            shutdown: self.inputs.shutdown.borrow_and_update().clone(),
            evicted: self.inputs.evicted.borrow_and_update().clone(),
            grants: self.inputs.grants.borrow_and_update().clone(),
            exclusive,
        };
        let is_same = self.decided_from.as_ref().is_some_and(|last| last.is_same(&snapshot));
        if !is_same || self.is_waiting {
            self.review(&snapshot);
        }
        self.decided_from = Some(snapshot);
    }

    fn review(&mut self, snapshot: &Snapshot) {
        let reported = self.inputs.status_cache.all().into_iter().map(|entry| {
            let has_terminated = entry.lifecycle == LifecycleSummary::Terminated;
            (entry.pod.reference.uid.clone(), ReportedPod { pod: entry.pod, has_terminated })
        });
        let reported: HashMap<PodUid, ReportedPod> = reported.collect();
        let made = self.inputs.own_pods.all().into_iter().collect();
        let now = self.outputs.clock.now();
        let decisions = self.admitter.review(&AdmissionInput {
            manifests: &snapshot.manifests,
            api: &snapshot.api,
            admitted: &self.outputs.admitted.all(),
            made: &made,
            reported: &reported,
            node: &snapshot.node,
            is_node_known: snapshot.is_node_known,
            confirmed: self.reread.confirmed(),
            shutdown: &snapshot.shutdown,
            evicted: &snapshot.evicted,
            grants: &snapshot.grants,
            exclusive: &snapshot.exclusive,
            now,
            instant: Instant::now(),
        });
        self.reread.request(decisions.unconfirmed.clone());
        self.outputs.admitted.record(&snapshot.manifests, &decisions.desired_pods, now);
        self.report_unsupported(&snapshot.api, &decisions);
        self.report_awaited(snapshot, &decisions.awaited_grants);
        (self.is_waiting, self.overdue) = (decisions.is_waiting, decisions.overdue);
        self.publish(decisions, now);
    }

    fn publish(&self, decisions: Decisions, now: Timestamp) {
        let timeline = &self.outputs.timeline;
        let known: HashSet<PodUid> =
            self.outputs.rejected.borrow().iter().map(|rejected| pod_uid(&rejected.pod)).collect();
        for rejected in &decisions.rejected {
            timeline.rejected(&rejected.pod, rejected.status.message.as_deref().unwrap_or_default(), now);
            let pod = pod_ref(&rejected.pod);
            if !known.contains(&pod.uid) {
                let event = rejected.event();
                let (reason, message) = (&*event.reason, &event.message);
                tracing::warn!(%pod, uid = %pod.uid, reason, message, "pod was rejected");
                (self.outputs.events)(&pod, None, &event);
                self.rejections.rejected(reason);
            }
        }
        for uid in &decisions.newly_preempted {
            if let Some(pod) = decisions.desired_pods.pods.iter().find(|pod| pod.reference.uid == *uid) {
                (self.outputs.events)(
                    &pod.reference,
                    None,
                    &PodEvent::warning(reasons::PREEMPTING, PREEMPTED),
                );
            }
        }
        // Upstream's topology manager sees every pod.
        (0..decisions.admitted_without).for_each(|_| self.outputs.grant_metrics.requested());
        for pod in &decisions.desired_pods.pods {
            timeline.admitted(pod, now);
        }
        for (pod, event) in &decisions.resizes {
            timeline.event(pod, None, event, now);
            tracing::info!(%pod, uid = %pod.uid, reason = &*event.reason, "{}", event.message);
            (self.outputs.events)(pod, None, event);
        }
        self.outputs.desired_pods.send_if_modified(|desired_pods| {
            let is_changed = !desired_pods.is_same(&decisions.desired_pods);
            *desired_pods = decisions.desired_pods;
            is_changed
        });
        self.outputs.rejected.send_if_modified(|rejected| {
            let is_changed = *rejected != decisions.rejected;
            *rejected = decisions.rejected;
            is_changed
        });
        // After the admitted ones, so that no grant is without a holder in between.
        self.outputs.granting.send_if_modified(|granting| {
            let is_same = granting.len() == decisions.granting.len()
                && granting.iter().zip(&decisions.granting).all(|(a, b)| Arc::ptr_eq(a, b));
            *granting = decisions.granting;
            !is_same
        });
        self.outputs.awaited.send_if_modified(|awaited| {
            let is_changed = *awaited != decisions.awaited_grants;
            *awaited = decisions.awaited_grants;
            is_changed
        });
    }

    /// Reports pods that wait from now on, or for something else.
    fn report_awaited(&self, snapshot: &Snapshot, awaited: &BTreeMap<PodUid, String>) {
        let before = self.outputs.awaited.borrow();
        let manifests = snapshot.manifests.pods.iter().map(|pod| &pod.pod);
        for pod in manifests.chain(snapshot.api.pods.values().map(|pod| &pod.pod)) {
            let pod = pod_ref(pod);
            if let Some(reason) = awaited.get(&pod.uid).filter(|reason| before.get(&pod.uid) != Some(reason))
            {
                let event = PodEvent::normal(reasons::ADMISSION_DELAYED, format!("The pod {reason}"));
                (self.outputs.events)(&pod, None, &event);
            }
        }
    }

    /// Reports running pods that were updated to use unsupported fields; they keep running as they are.
    fn report_unsupported(&mut self, api: &ApiState, decisions: &Decisions) {
        self.reported_unsupported.retain(|uid, _| api.pods.contains_key(uid));
        for pod in &decisions.desired_pods.pods {
            let reference = pod_ref(pod);
            let Some(current) =
                api.pods.get(&reference.uid).filter(|current| !current.unsupported.is_empty())
            else {
                self.reported_unsupported.remove(&reference.uid);
                continue;
            };
            let message = unsupported_message(&current.unsupported);
            if is_terminating(pod) || self.reported_unsupported.get(&reference.uid) == Some(&message) {
                continue;
            }
            tracing::warn!(pod = %reference, uid = %reference.uid, message, "a pod uses fields that hostlet does not support");
            (self.outputs.events)(
                &reference,
                None,
                &PodEvent::warning(reasons::POD_FEATURE_UNSUPPORTED, message.clone()),
            );
            self.reported_unsupported.insert(reference.uid, message);
        }
    }
}

fn supports_strict_groups(status: &RuntimeStatus) -> bool {
    status.features.is_some_and(|features| features.supplemental_groups_policy)
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
