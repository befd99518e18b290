//! What the control socket shows of this node. The daemon writes it, the command line reads it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::explain::PullSoFar;
use crate::types::PodRef;

/// This node and its pods, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Name of the node.
    pub node: String,
    /// Every pod with its status, by namespace and name.
    pub pods: Vec<Pod>,
    /// Manifests that could not be used.
    pub problems: Vec<Problem>,
    /// What keeps the node as a whole from running pods; none if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What is wrong with the local store; none if nothing is. Pods run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Which processes of containerd's are left over and cannot be ended; none if there are none. Pods run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shims: Option<String>,
    /// Which other kubelets work on the same container runtime; none if there are none. Pods run, until they remove them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelets: Option<String>,
    /// Who else can read the credentials for the API server; none if nobody can. Pods run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Why the API server cannot be read; none if it can be, or there is none. Pods run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Calls to the container runtime that take longer than they should.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung: Vec<HungCall>,
    /// Image archives that could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<Problem>,
}

/// A call to the container runtime that takes longer than it should. It holds up its pod, and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HungCall {
    /// The call, by its upstream name, e.g. `stop_container`.
    pub call: String,
    /// What it is about.
    pub subject: String,
    /// The pod it holds up, if it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// How long it has taken so far.
    pub seconds: u64,
}

/// A manifest or an image archive that could not be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The pod it names, if it got that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// What is wrong, one mistake a line.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// The pulls under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullsView {
    /// Each of them, the oldest first.
    pub pulls: Vec<PullView>,
    /// Bytes that have arrived since the oldest began, of all of them together: the runtime does not tell them apart. None
    /// if it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl PullsView {
    /// The pull that a pod waits for.
    pub fn of(&self, pod: &PodRef) -> Option<PullSoFar> {
        let name = pod.to_string();
        let pull = self.pulls.iter().find(|pull| pull.pods.contains(&name))?;
        let pulls = self.pulls.iter().filter(|pull| !pull.waits_for_turn).count();
        Some(PullSoFar { since: pull.since, waits_for_turn: pull.waits_for_turn, bytes: self.bytes, pulls })
    }
}

/// A pull under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullView {
    /// The image, with its tag.
    pub image: String,
    /// The pods that wait for it.
    pub pods: Vec<String>,
    /// When the runtime began to pull; when it was asked for, while it waits for its turn.
    pub since: Timestamp,
    /// Whether it waits until fewer pulls are under way.
    pub waits_for_turn: bool,
}

/// An image the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageView {
    /// The runtime's identifier.
    pub id: String,
    /// Names with a tag.
    pub tags: Vec<String>,
    /// Names with a digest.
    pub digests: Vec<String>,
    /// Bytes on disk.
    pub size: u64,
}
