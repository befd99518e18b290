//! What is known of the pod to be explained.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use crate::pod::view::PodView;
use crate::source::ManifestProblem;
use crate::status::{Activity, Doing};

/// What this node makes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It should run.
    Wanted,
    /// It should run, and an earlier pod of the same name has not ended yet.
    Behind,
    /// This node does not take it; its status says why.
    Refused,
    /// No manifest asks for it any more.
    Unwanted,
}

/// A call to the runtime about this pod that takes longer than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HungCall {
    /// The call, by its upstream name.
    pub call: String,
    /// What it is about.
    pub subject: String,
    /// How long it has taken so far.
    pub took: Duration,
    /// It is about the whole node, so it may not hold up this pod.
    pub is_of_node: bool,
}

/// What keeps the node as a whole from running pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeProblem {
    /// The runtime does not answer, or says that it is not ready.
    Runtime(String),
    /// The runtime says that the pod network is not ready.
    Network(String),
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(what) | Self::Network(what) => f.write_str(what),
        }
    }
}

/// The pull of an image that a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSoFar {
    /// Since when.
    pub since: Timestamp,
    /// It waits until fewer pulls are under way.
    pub waits_for_turn: bool,
    /// Bytes that have arrived, if the runtime tells that.
    pub bytes: Option<u64>,
    /// How many pulls these bytes are of: the runtime does not tell them apart.
    pub pulls: usize,
}

/// Everything an explanation is made from.
#[derive(Clone, Debug)]
pub struct ExplainInput<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What this node makes of it.
    pub standing: Disposition,
    /// Its status; none before its worker told one.
    pub status: Option<&'a PodStatus>,
    /// Since when its containers are being stopped for good.
    pub terminating_since: Option<Timestamp>,
    /// What its worker does.
    pub doing: Option<&'a Doing>,
    /// Its containers that run by what was last seen in the runtime.
    pub running: Vec<String>,
    /// A call about it that hangs.
    pub hung: Option<HungCall>,
    /// The pull it waits for.
    pub pull: Option<PullSoFar>,
    /// The manifest it is from, if it is still from one.
    pub file: Option<&'a Path>,
    /// What is wrong with its manifest as it is now, or with another one of the same pod.
    pub problem: Option<&'a ManifestProblem>,
    /// What keeps the node as a whole from running pods.
    pub trouble: Option<NodeProblem>,
    /// The last line of the logs of containers that ended badly, by their names.
    pub log_ends: BTreeMap<String, String>,
    /// Where image archives are imported from, if from anywhere.
    pub preload_dir: Option<&'a Path>,
    /// Image archives that cannot be used, and why.
    pub archives: &'a [(String, String)],
    /// The time.
    pub now: Timestamp,
}

impl ExplainInput<'_> {
    pub(super) fn view(&self) -> PodView<'_> {
        PodView::from(self.pod)
    }

    /// `namespace/name`.
    pub(super) fn name(&self) -> String {
        let view = self.view();
        format!("{}/{}", view.namespace, view.name)
    }

    /// The name to type after `hostlet logs`.
    pub(super) fn logs(&self, container: &str) -> String {
        let view = self.view();
        let choice = if view.spec.containers.len() > 1 { format!(" -c {container}") } else { String::new() };
        format!("hostlet logs {}{choice}", view.name)
    }

    pub(super) fn activity(&self) -> &Activity {
        self.doing.map_or(&Activity::Idle, |doing| &doing.activity)
    }

    /// Since when the worker is at its present step.
    pub(super) fn active_since(&self) -> Option<Timestamp> {
        self.doing.map(|doing| doing.since)
    }

    /// When what failed for a container is tried again: not before its back-off is over, and then with the worker's next
    /// work.
    pub(super) fn retry_of(&self, container: &str) -> Option<Timestamp> {
        let doing = self.doing?;
        let back_off = doing.retries.get(container).copied().filter(|at| *at > self.now);
        back_off.or(doing.next_work)
    }

    pub(super) fn next_work(&self) -> Option<Timestamp> {
        self.doing.and_then(|doing| doing.next_work)
    }

    pub(super) fn statuses(&self) -> &[ContainerStatus] {
        self.status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
    }
}
