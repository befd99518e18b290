//! Views on the control socket, written by the daemon and read by the command line.

use hostlet_base::with_default_tag;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::explain::PullSoFar;

/// A snapshot of this node and its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsView {
    /// Name of the node.
    pub node: String,
    /// All pods with their status, by namespace and name.
    pub pods: Vec<Pod>,
    /// Unusable manifests.
    pub problems: Vec<Problem>,
    /// What prevents the whole node from running pods, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What the node is short of, one sentence for each pressure. New pods are rejected, and some may be evicted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pressure: Vec<String>,
    /// Problems of the local store, if any. They do not affect pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Leftover containerd processes that cannot be terminated, if any. They do not affect pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shims: Option<String>,
    /// What pods of others have on this host, if anything. hostlet leaves it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// Other kubelets on the same container runtime, if any. They may remove this node's pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelets: Option<String>,
    /// Problems of the stored copies of objects, if any. They affect pods that start while the API server is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline: Option<String>,
    /// Who else can read the API server's credentials, if anyone. It does not affect pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// The client certificate for the API server, if the node has or needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateView>,
    /// That the host shuts down, or why its shutdown would not wait for pods, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// Why the API server cannot be read, if so. It does not affect running pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Hung calls to the container runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung: Vec<HungCallView>,
    /// Unusable image archives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<Problem>,
    /// What is wrong with plugins, one sentence each. It affects only pods that need them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
}

/// The state of the client certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateView {
    /// The state, as sentences.
    pub state: String,
    /// Whether the node cannot use the API server because of it.
    pub is_problem: bool,
}

/// A hung call to the container runtime, which blocks only its pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HungCallView {
    /// The call's upstream name, e.g. `stop_container`.
    pub call: String,
    /// What the call is about: a container, a sandbox or an image.
    pub subject: String,
    /// The blocked pod, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its duration so far.
    pub seconds: u64,
}

/// An unusable manifest or image archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Path of the file, or the URL of a manifest.
    pub file: String,
    /// Its pod, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The problems, one per line.
    pub message: String,
    /// Start of the problem.
    pub since: Timestamp,
}

/// The pulls in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullsView {
    /// The pulls, oldest first.
    pub pulls: Vec<PullView>,
    /// Bytes downloaded since the oldest one started, for all of them together, because the runtime reports only the sum.
    /// `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl PullsView {
    /// The pull of this image, as a spec names it.
    pub fn of(&self, image: &str) -> Option<PullSoFar> {
        let image = with_default_tag(image).ok()?;
        let pull = self.pulls.iter().find(|pull| pull.image == image)?;
        let pulls = self.pulls.iter().filter(|pull| !pull.waits_for_turn).count();
        Some(PullSoFar { since: pull.since, waits_for_turn: pull.waits_for_turn, bytes: self.bytes, pulls })
    }
}

/// A pull in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullView {
    /// The image, with its tag.
    pub image: String,
    /// The pods that it is pulled for.
    pub pods: Vec<String>,
    /// When the pull started or, while queued, was requested.
    pub since: Timestamp,
    /// Whether it is queued behind other pulls.
    pub waits_for_turn: bool,
}

/// An image of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageView {
    /// The runtime's ID.
    pub id: String,
    /// Names with a tag.
    pub tags: Vec<String>,
    /// Names with a digest.
    pub digests: Vec<String>,
    /// Bytes on disk.
    pub size: u64,
}
