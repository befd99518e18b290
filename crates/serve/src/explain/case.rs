//! The facts about the pod to explain.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use hostlet_base::node::NodePressure;
use hostlet_base::reasons;
use hostlet_observe::status::{Activity, ContainerKill, ImagePull, WorkerActivity};
use hostlet_pod::view::PodView;
use hostlet_pod::{ContainerKind, FailingProbe, ManifestOrigin, ManifestProblem, PodContainer};

/// How the message of an eviction begins whose cause is the node (upstream's `nodeLowMessageFmt`).
pub(super) const LOW_ON_RESOURCE: &str = "The node was low on resource";

/// This node's decision about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It was not decided yet whether it may run, in some cases because of this.
    Undecided(Option<String>),
    /// It should run.
    Desired,
    /// It should run, but an earlier pod of the same name has not terminated yet.
    WaitingForPredecessor,
    /// Rejected at admission; its status says why.
    Rejected,
    /// Its manifest was removed.
    Removed,
}

/// A runtime call for this pod that takes too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HungCall {
    /// The CRI method.
    pub call: String,
    /// The subject of the call.
    pub subject: String,
    /// Its duration so far.
    pub took: Duration,
    /// Whether it concerns the whole node, so that it may not block this pod.
    pub is_of_node: bool,
}

/// What prevents the whole node from running pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeProblem {
    /// The runtime does not respond or reports that it is not ready.
    Runtime(String),
    /// The runtime reports that the pod network is not ready.
    Network(String),
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(what) | Self::Network(what) => f.write_str(what),
        }
    }
}

/// The image pull that a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSoFar {
    /// Since when.
    pub since: Timestamp,
    /// It is queued behind other pulls.
    pub waits_for_turn: bool,
    /// Bytes downloaded, if the runtime reports them.
    pub bytes: Option<u64>,
    /// Number of pulls that these bytes belong to: the runtime reports only their sum.
    pub pulls: usize,
}

/// The input of an explanation.
#[derive(Clone, Debug)]
pub(crate) struct ExplainInput<'a> {
    pub pod: &'a Pod,
    /// The node's decision about it.
    pub disposition: Disposition,
    /// Its status; `None` before the first one.
    pub status: Option<&'a PodStatus>,
    /// When it began to terminate.
    pub terminating_since: Option<Timestamp>,
    /// The current activity of its worker.
    pub doing: Option<&'a WorkerActivity>,
    /// Its running containers, as last observed in the runtime.
    pub running: Vec<String>,
    pub hung: Option<HungCall>,
    /// The pull it waits for.
    pub pull: Option<PullSoFar>,
    /// Its manifest, if that still exists.
    pub origin: Option<&'a ManifestOrigin>,
    /// The problem of its current manifest, or of another one of the same pod.
    pub problem: Option<&'a ManifestProblem>,
    /// What prevents the whole node from running pods.
    pub node_problem: Option<NodeProblem>,
    /// What the node is short of.
    pub pressure: &'a NodePressure,
    /// When the node began to shut down, if it does.
    pub shutdown: Option<Timestamp>,
    pub failing_probes: Vec<FailingProbe>,
    /// The last log line of failed containers, by name.
    pub log_ends: BTreeMap<String, String>,
    /// The credential providers for its images that failed when they were asked last, with their errors.
    pub provider_failures: BTreeMap<String, String>,
    /// The directory of image archives, if configured.
    pub preload_dir: Option<&'a Path>,
    /// Unusable image archives with their problems.
    pub archives: &'a [(String, String)],
    /// The current time.
    pub now: Timestamp,
}

impl ExplainInput<'_> {
    /// The images that are being pulled beside its activity.
    pub(super) fn pulls_beside(&self) -> impl Iterator<Item = &ImagePull> {
        let awaited = if let Activity::PullingImage(pull) = self.activity() { Some(pull) } else { None };
        let pulling = self.doing.iter().flat_map(|doing| &doing.pulling);
        pulling.filter(move |pull| Some(*pull) != awaited)
    }

    pub(super) fn view(&self) -> PodView<'_> {
        PodView::from(self.pod)
    }

    /// The message of the eviction of this pod, if it was evicted.
    pub(super) fn evicted(&self) -> Option<&str> {
        let status = self.status?;
        status.message.as_deref().filter(|_| status.reason.as_deref() == Some(reasons::EVICTED))
    }

    /// Whether this node rejected or evicted the pod because it was short of something.
    pub(super) fn is_under_pressure(&self) -> bool {
        let is_rejected = self.disposition == Disposition::Rejected;
        self.evicted().is_some_and(|message| is_rejected || message.starts_with(LOW_ON_RESOURCE))
    }

    /// `namespace/name`.
    pub(super) fn name(&self) -> String {
        let view = self.view();
        format!("{}/{}", view.namespace, view.name)
    }

    /// The pod's name as an argument of `hostlet logs`.
    pub(super) fn logs(&self, container: &str) -> String {
        let view = self.view();
        let is_only = matches!(view.spec.containers.as_slice(), [only] if only.name == container);
        let choice = if is_only { String::new() } else { format!(" -c {container}") };
        format!("hostlet logs {}{choice}", view.name)
    }

    pub(super) fn activity(&self) -> &Activity {
        self.doing.map_or(&Activity::Idle, |doing| &doing.activity)
    }

    /// Start of the worker's current step.
    pub(super) fn active_since(&self) -> Option<Timestamp> {
        self.doing.map(|doing| doing.since)
    }

    /// The stops of its containers since hostlet started.
    pub(super) fn kills(&self) -> &[ContainerKill] {
        self.doing.map(|doing| doing.kills.as_slice()).unwrap_or_default()
    }

    /// When a container's failed step is retried: with the worker's next sync after the back-off.
    pub(super) fn retry_of(&self, container: &str) -> Option<Timestamp> {
        let doing = self.doing?;
        let back_off = doing.retries.get(container).copied().filter(|at| *at > self.now);
        back_off.or(doing.next_work)
    }

    /// The pull Secrets that were missing when an image could not be pulled.
    pub(super) fn missing_secrets(&self) -> &[String] {
        self.doing.map(|doing| doing.missing_secrets.as_slice()).unwrap_or_default()
    }

    pub(super) fn next_work(&self) -> Option<Timestamp> {
        self.doing.and_then(|doing| doing.next_work)
    }

    /// Statuses of the main containers.
    pub(super) fn statuses(&self) -> &[ContainerStatus] {
        self.status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
    }

    /// Statuses of the init containers and sidecars, then of the main containers.
    pub(super) fn all_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        let inits = self.status.and_then(|status| status.init_container_statuses.as_deref());
        inits.unwrap_or_default().iter().chain(self.statuses())
    }

    /// The ephemeral containers that wait because of a problem, with its reason and message.
    pub(super) fn waiting_ephemeral(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let statuses = self.status.and_then(|status| status.ephemeral_container_statuses.as_deref());
        statuses.unwrap_or_default().iter().filter_map(|status| {
            let waiting = status.state.as_ref()?.waiting.as_ref()?;
            // One that is about to start has no message.
            let message = waiting.message.as_deref().filter(|message| !message.is_empty())?;
            Some((status.name.as_str(), waiting.reason.as_deref().unwrap_or_default(), message))
        })
    }

    /// The definition of a container of any kind but ephemeral, with its kind.
    pub(super) fn container(&self, name: &str) -> Option<PodContainer<'_>> {
        let view = self.view();
        let inits = view.init_containers().iter().map(PodContainer::init);
        let mut all = inits.chain(view.spec.containers.iter().map(PodContainer::main));
        all.find(|container| container.spec.name == name)
    }

    /// A container by kind and name, at the begin of a sentence.
    pub(super) fn subject(&self, name: &str) -> String {
        let kind = match self.container(name).map(|container| container.kind) {
            Some(ContainerKind::Init) => "Init container",
            Some(ContainerKind::Sidecar) => "Sidecar container",
            Some(ContainerKind::Main | ContainerKind::Ephemeral) | None => "Container",
        };
        format!("{kind} {name}")
    }
}
