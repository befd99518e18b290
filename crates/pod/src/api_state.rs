//! What is known of the API server's pods that are bound to this node. Values only: a task elsewhere follows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{CONFIG_MIRROR_ANNOTATION, PodUid};
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::validation::FieldError;

/// The state at one time. Every state is complete, so receivers may skip some.
#[derive(Clone, Debug, Default)]
pub struct ApiState {
    /// Whether everything was listed once. Until then, a missing pod may still exist.
    pub ready: bool,
    /// The pods bound to this node, without mirrors.
    pub pods: BTreeMap<PodUid, Arc<ApiPod>>,
    /// The mirrors of this node's static pods, by namespace and name.
    pub mirrors: BTreeMap<(String, String), Arc<Mirror>>,
    /// Why the API server currently cannot be read.
    pub problem: Option<String>,
}

/// A pod of the API server that is bound to this node.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiPod {
    /// The pod, with the annotations of its source. Identical until a part changes that affects what runs or its readiness; its
    /// status is from that time.
    pub pod: Arc<Pod>,
    /// Its current status on the API server.
    pub status: Arc<PodStatus>,
    /// Its `resourceVersion`, for equality only.
    pub version: String,
    /// The unsupported fields that it uses; if there are any, a new pod is rejected with these errors.
    pub unsupported: Vec<FieldError>,
}

/// The mirror of a static pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The mirror pod on the API server, with its annotations.
    pub pod: Arc<Pod>,
}

impl Mirror {
    /// UID of the static pod (`kubernetes.io/config.mirror`).
    pub fn mirrored(&self) -> &str {
        let annotations = self.pod.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(CONFIG_MIRROR_ANNOTATION)).map_or("", String::as_str)
    }
}
