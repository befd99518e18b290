//! The task that has the pods judged each time the sources, the node or the room on it change, and tells what came of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::AdmittedPods;
use super::judge::{Asked, Judge, Judgement, PREEMPTED, PREEMPTING, sentences};
use super::node::NodeView;
use super::refusal::RefusedPod;
use super::reread::Reread;
use crate::node::NodeReader;
use crate::pod::source::SourceState;
use crate::pod::source::api::ApiState;
use crate::pod::status::{Lifecycle, Phase};
use crate::pod::table::WantedPods;
use crate::pod::{PodEvents, StatusBoard, pod_ref, pod_uid};
use crate::types::{PodEvent, PodUid, WallClock};

/// What admission goes by.
pub struct AdmissionInputs {
    /// What the manifests say.
    pub manifests: watch::Receiver<SourceState>,
    /// What the API server says; alone on a host, ready and empty.
    pub api: watch::Receiver<ApiState>,
    /// The node as it knows itself.
    pub own: NodeView,
    /// The Node as the API server shows it; none before it is registered, and alone on a host.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Reads the Node anew, into `node`; none alone on a host.
    pub reader: Option<NodeReader>,
    /// Which pods have ended.
    pub board: StatusBoard,
    /// Sysctls beyond the safe ones: names, or starts of names followed by `*`. (`allowedUnsafeSysctls`)
    pub allowed_unsafe_sysctls: Vec<String>,
}

/// Where the judgements go.
pub struct Judged {
    /// The pods that may run.
    pub wanted: watch::Sender<WantedPods>,
    /// Those that may not.
    pub refused: watch::Sender<Vec<RefusedPod>>,
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
    judge: Judge,
    /// What was told of pods that run and ask for more than hostlet does.
    told: HashMap<PodUid, String>,
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
        let judge = Judge::new(inputs.allowed_unsafe_sysctls.clone());
        let reread = Reread::new(inputs.reader.take());
        Self { inputs, judged, judge, told: HashMap::new(), judged_of: None, is_waiting: false, reread }
    }

    /// Judges until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut changes = self.inputs.board.changes();
        loop {
            self.look();
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe, all: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.inputs.manifests.changed() => {}
                Ok(()) = self.inputs.api.changed() => {}
                Ok(()) = self.inputs.node.changed() => {}
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
        let own = &self.inputs.own;
        let question = Question {
            manifests: self.inputs.manifests.borrow_and_update().clone(),
            api: self.inputs.api.borrow_and_update().clone(),
            node: shown.as_ref().map_or_else(|| own.clone(), |node| own.shown(node)),
            is_node_known: shown.is_some(),
        };
        let is_old = self.judged_of.as_ref().is_some_and(|last| last.is_same(&question));
        if !is_old || self.is_waiting {
            self.judge(&question);
        }
        self.judged_of = Some(question);
    }

    fn judge(&mut self, question: &Question) {
        let ended: HashSet<PodUid> = self
            .inputs
            .board
            .all()
            .into_iter()
            .filter(|told| told.lifecycle == Lifecycle::Terminated)
            .map(|told| pod_uid(&told.pod))
            .collect();
        let judgement = self.judge.judge(&Asked {
            manifests: &question.manifests,
            api: &question.api,
            admitted: &self.judged.admitted.times(),
            ended: &ended,
            node: &question.node,
            is_node_known: question.is_node_known,
            sure: self.reread.sure(),
        });
        self.reread.ask(judgement.doubtful.clone());
        self.judged.admitted.note(&question.manifests, &judgement.wanted, self.judged.clock.now());
        self.say_what_is_not_done(&question.api, &judgement);
        self.is_waiting = judgement.is_waiting;
        self.tell(judgement);
    }

    fn tell(&self, judgement: Judgement) {
        let now = self.judged.clock.now();
        let timeline = self.inputs.board.timeline();
        let known: HashSet<PodUid> =
            self.judged.refused.borrow().iter().map(|refused| pod_uid(&refused.pod)).collect();
        for refused in &judgement.refused {
            timeline.refused(&refused.pod, refused.status.message.as_deref().unwrap_or_default(), now);
            let pod = pod_ref(&refused.pod);
            if !known.contains(&pod.uid) {
                let event = refused.event();
                let (reason, message) = (event.reason, &event.message);
                tracing::warn!(%pod, uid = %pod.uid, reason, message, "pod was refused");
                (self.judged.events)(&pod, None, &event);
            }
        }
        let known = self.judged.wanted.borrow().ended.clone();
        for uid in judgement.wanted.ended.keys().filter(|uid| !known.contains_key(*uid)) {
            if let Some(pod) = judgement.wanted.pods.iter().find(|pod| pod_uid(pod) == *uid) {
                (self.judged.events)(&pod_ref(pod), None, &PodEvent::warning(PREEMPTING, PREEMPTED));
            }
        }
        for pod in &judgement.wanted.pods {
            timeline.admitted(pod, now);
        }
        self.judged.wanted.send_if_modified(|wanted| {
            let is_news = !wanted.is_same(&judgement.wanted);
            *wanted = judgement.wanted;
            is_news
        });
        self.judged.refused.send_if_modified(|refused| {
            let is_news = *refused != judgement.refused;
            *refused = judgement.refused;
            is_news
        });
    }

    /// A pod that runs may be changed so that it asks for more than hostlet does: it runs on as it is, and says so.
    fn say_what_is_not_done(&mut self, api: &ApiState, judgement: &Judgement) {
        self.told.retain(|uid, _| api.pods.contains_key(uid));
        for pod in &judgement.wanted.pods {
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
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| Phase::parse(status.phase.as_deref()?));
    pod.metadata.deletion_timestamp.is_some() || phase.is_some_and(Phase::is_terminal)
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
