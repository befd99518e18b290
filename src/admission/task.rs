//! The task that has the pods judged each time the sources, the node or the room on it change, and tells what came of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::AdmittedPods;
use super::admitter::{AdmissionInput, Admitter, Judgement, PREEMPTED, PREEMPTING, sentences};
use super::node::NodeView;
use super::rejection::RejectedPod;
use super::reread::Reread;
use crate::node::{NodeReader, OwnNodeWatch, Pressures};
use crate::pod::DesiredPods;
use crate::pod::PodPhase;
use crate::pod::{PodEvents, pod_ref, pod_uid};
use crate::source::SourceState;
use crate::source::api::ApiState;
use crate::status::LifecycleSummary;
use crate::status::StatusCache;
use crate::types::{PodEvent, PodUid, WallClock};

/// Upstream's reason of the event about a resize that will not be done.
const RESIZE_INFEASIBLE: &str = "ResizeInfeasible";

/// What admission goes by.
pub struct AdmissionInputs {
    /// What the manifests say.
    pub manifests: watch::Receiver<SourceState>,
    /// What the API server says; alone on a host, ready and empty.
    pub api: watch::Receiver<ApiState>,
    /// The node as it knows itself, but for what changes while it runs.
    pub own: NodeView,
    /// What pods can have of it: the same value as the Node's status reports.
    pub resources: OwnNodeWatch,
    /// What the node is short of: the same value as the Node's conditions report.
    pub pressures: watch::Receiver<Pressures>,
    /// The Node as the API server shows it; none before it is registered, and alone on a host.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Reads the Node anew, into `node`; none alone on a host.
    pub reader: Option<NodeReader>,
    /// Which pods have ended.
    pub status_cache: StatusCache,
    /// Sysctls beyond the safe ones: names, or starts of names followed by `*`. (`allowedUnsafeSysctls`)
    pub allowed_unsafe_sysctls: Vec<String>,
}

/// Where the judgements go.
pub struct Judged {
    /// The pods that may run.
    pub desired_pods: watch::Sender<DesiredPods>,
    /// Those that may not.
    pub rejected: watch::Sender<Vec<RejectedPod>>,
    /// What is remembered of them.
    pub admitted: AdmittedPods,
    /// Events of them.
    pub events: PodEvents,
    /// The time of day.
    pub clock: WallClock,
}

/// Judges, to be run by the app.
pub struct Admission {
    inputs: AdmissionInputs,
    judged: Judged,
    admitter: Admitter,
    /// What was told of pods that run and ask for more than hostlet does.
    told: HashMap<PodUid, String>,
    /// What was told of resizes that are asked for.
    told_resizes: HashMap<PodUid, String>,
    /// What was judged last.
    judged_of: Option<Question>,
    /// Whether a pod waits for room.
    is_waiting: bool,
    /// The reading of the Node for pods that it does not take as it was last seen.
    reread: Reread,
}

/// What a judgement is made from, but for what has ended. Two are the same if they ask about the very same pods.
struct Question {
    manifests: SourceState,
    api: ApiState,
    node: NodeView,
    is_node_known: bool,
}

impl Question {
    /// The API server tells all the time what we have told it; most of its news is about statuses alone.
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
    }
}

impl Admission {
    /// Goes by `inputs`; tells `judged`.
    pub fn new(mut inputs: AdmissionInputs, judged: Judged) -> Self {
        let admitter = Admitter::new(inputs.allowed_unsafe_sysctls.clone());
        let reread = Reread::new(inputs.reader.take());
        Self {
            inputs,
            judged,
            admitter,
            told: HashMap::new(),
            told_resizes: HashMap::new(),
            judged_of: None,
            is_waiting: false,
            reread,
        }
    }

    /// Judges until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut changes = self.inputs.status_cache.changes();
        loop {
            self.look();
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe, all: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.inputs.manifests.changed() => {}
                Ok(()) = self.inputs.api.changed() => {}
                Ok(()) = self.inputs.node.changed() => {}
                Ok(()) = self.inputs.pressures.changed() => {}
                // Cancel-safe: see there.
                () = self.inputs.resources.changed() => {}
                // Pods end all the time; that matters only to those who wait for room.
                Ok(()) = changes.changed(), if self.is_waiting => {}
                // Cancel-safe: see there.
                () = self.reread.done() => self.judged_of = None,
            }
        }
    }

    /// Judges, if there is anything new to judge.
    fn look(&mut self) {
        let shown = self.inputs.node.borrow_and_update().clone();
        let allocatable = self.inputs.resources.now().allocatable;
        let pressures = self.inputs.pressures.borrow_and_update().clone();
        let own = NodeView { allocatable, pressures, ..self.inputs.own.clone() };
        let question = Question {
            manifests: self.inputs.manifests.borrow_and_update().clone(),
            api: self.inputs.api.borrow_and_update().clone(),
            node: shown.as_ref().map_or_else(|| own.clone(), |node| own.shown(node)),
            is_node_known: shown.is_some(),
        };
        let is_old = self.judged_of.as_ref().is_some_and(|last| last.is_same(&question));
        if !is_old || self.is_waiting {
            self.review(&question);
        }
        self.judged_of = Some(question);
    }

    fn review(&mut self, question: &Question) {
        let ended: HashSet<PodUid> = self
            .inputs
            .status_cache
            .all()
            .into_iter()
            .filter(|told| told.lifecycle == LifecycleSummary::Terminated)
            .map(|told| told.pod.reference.uid.clone())
            .collect();
        let judgement = self.admitter.review(&AdmissionInput {
            manifests: &question.manifests,
            api: &question.api,
            admitted: &self.judged.admitted.times(),
            ended: &ended,
            node: &question.node,
            is_node_known: question.is_node_known,
            sure: self.reread.sure(),
        });
        self.reread.ask(judgement.doubtful.clone());
        self.judged.admitted.note(&question.manifests, &judgement.desired_pods, self.judged.clock.now());
        self.say_what_is_not_done(&question.api, &judgement);
        self.say_what_is_not_resized(&question.api, &judgement);
        self.is_waiting = judgement.is_waiting;
        self.tell(judgement);
    }

    fn tell(&self, judgement: Judgement) {
        let now = self.judged.clock.now();
        let timeline = self.inputs.status_cache.timeline();
        let known: HashSet<PodUid> =
            self.judged.rejected.borrow().iter().map(|rejected| pod_uid(&rejected.pod)).collect();
        for rejected in &judgement.rejected {
            timeline.rejected(&rejected.pod, rejected.status.message.as_deref().unwrap_or_default(), now);
            let pod = pod_ref(&rejected.pod);
            if !known.contains(&pod.uid) {
                let event = rejected.event();
                let (reason, message) = (&*event.reason, &event.message);
                tracing::warn!(%pod, uid = %pod.uid, reason, message, "pod was rejected");
                (self.judged.events)(&pod, None, &event);
            }
        }
        let known = self.judged.desired_pods.borrow().kills.clone();
        for uid in judgement.desired_pods.kills.keys().filter(|uid| !known.contains_key(*uid)) {
            if let Some(pod) = judgement.desired_pods.pods.iter().find(|pod| pod.reference.uid == *uid) {
                (self.judged.events)(&pod.reference, None, &PodEvent::warning(PREEMPTING, PREEMPTED));
            }
        }
        for pod in &judgement.desired_pods.pods {
            timeline.admitted(pod, now);
        }
        self.judged.desired_pods.send_if_modified(|desired_pods| {
            let is_news = !desired_pods.is_same(&judgement.desired_pods);
            *desired_pods = judgement.desired_pods;
            is_news
        });
        self.judged.rejected.send_if_modified(|rejected| {
            let is_news = *rejected != judgement.rejected;
            *rejected = judgement.rejected;
            is_news
        });
    }

    /// A pod that runs may be changed so that it asks for more than hostlet does: it runs on as it is, and says so.
    fn say_what_is_not_done(&mut self, api: &ApiState, judgement: &Judgement) {
        self.told.retain(|uid, _| api.pods.contains_key(uid));
        for pod in &judgement.desired_pods.pods {
            let reference = pod_ref(pod);
            let Some(asked) = api.pods.get(&reference.uid).filter(|asked| !asked.unsupported.is_empty())
            else {
                self.told.remove(&reference.uid);
                continue;
            };
            let message = sentences(&asked.unsupported);
            if is_over(pod) || self.told.get(&reference.uid) == Some(&message) {
                continue;
            }
            tracing::warn!(pod = %reference, uid = %reference.uid, message, "a pod asks for what hostlet does not do");
            (self.judged.events)(
                &reference,
                None,
                &PodEvent::warning("PodFeatureUnsupported", message.clone()),
            );
            self.told.insert(reference.uid, message);
        }
    }

    /// Upstream's event, once for each generation of the pod that asks for it.
    fn say_what_is_not_resized(&mut self, api: &ApiState, judgement: &Judgement) {
        let resize = |uid: &PodUid| api.pods.get(uid).and_then(|pod| pod.resize.clone());
        self.told_resizes.retain(|uid, _| resize(uid).is_some());
        for pod in judgement.desired_pods.pods.iter().filter(|pod| !is_over(pod)) {
            let reference = pod_ref(pod);
            let Some(message) = resize(&reference.uid) else { continue };
            if self.told_resizes.get(&reference.uid) != Some(&message) {
                (self.judged.events)(
                    &reference,
                    None,
                    &PodEvent::warning(RESIZE_INFEASIBLE, message.clone()),
                );
                self.told_resizes.insert(reference.uid, message);
            }
        }
    }
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| PodPhase::parse(status.phase.as_deref()?));
    pod.metadata.deletion_timestamp.is_some() || phase.is_some_and(PodPhase::is_terminal)
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
