//! The state of the manifest source: static pods, and problems with manifests.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod::validation::FieldError;

/// The state at one time. Every state is complete, so receivers may skip some.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceState {
    /// Whether everything was read once. Until then, a missing pod may still exist.
    pub ready: bool,
    /// The static pods, ordered by file name.
    pub pods: Vec<Arc<StaticPod>>,
    /// The problems, ordered by file name. A file with a problem may still have the pod it defined before.
    pub problems: Vec<ManifestProblem>,
}

/// A static pod: valid, with its defaults and identity.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPod {
    /// The pod. Shared, never changed.
    pub pod: Arc<Pod>,
    /// The file that defines it.
    pub file: PathBuf,
    /// The unsupported fields that it uses; if there are any, the pod is rejected with these errors.
    pub unsupported: Vec<FieldError>,
}

/// A problem with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ManifestProblem {
    /// The file, or the directory if that could not be listed.
    pub file: PathBuf,
    /// `namespace/name` of the pod, if the file could be decoded.
    pub pod: Option<String>,
    /// What is wrong and the remedy, one line per mistake.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}
