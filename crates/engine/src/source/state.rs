//! The state of the manifest source: static pods, and problems with manifests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use hostlet_pod::validation::FieldError;
use hostlet_pod::{ManifestOrigin, ManifestProblem};

/// The state at one time. Every state is complete, so receivers may skip some.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceState {
    /// Whether everything was read once. Until then, a missing pod may still exist.
    pub ready: bool,
    /// The static pods: from files, ordered by file name, then from a URL.
    pub pods: Vec<Arc<StaticPod>>,
    /// The problems, in the same order. What has a problem may still define what it defined before.
    pub problems: Vec<ManifestProblem>,
}

/// A static pod: valid, with its defaults and identity.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPod {
    /// The pod. Shared, never changed.
    pub pod: Arc<Pod>,
    /// What defines it.
    pub origin: ManifestOrigin,
    /// The unsupported fields that it uses; if there are any, the pod is rejected with these errors.
    pub unsupported: Vec<FieldError>,
}
