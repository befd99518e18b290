//! What the source of manifests says: the pods that should run here, and the manifests that could not be used.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod::validation::FieldError;

/// All that the manifests say at one time. Every state is complete: a reader that missed some has lost nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceState {
    /// Whether everything was read once. Before that, a pod that is absent is not known to be unwanted.
    pub ready: bool,
    /// The pods that should run, by file name.
    pub pods: Vec<Arc<StaticPod>>,
    /// What could not be used, by file name. A file with a problem may still have a pod: the one it defined before.
    pub problems: Vec<ManifestProblem>,
}

/// A pod from a manifest: valid, with its defaults and its identity on this node.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPod {
    /// The pod. Shared, never changed.
    pub pod: Arc<Pod>,
    /// The file that defines it.
    pub file: PathBuf,
    /// What it asks for that hostlet does not do. Not empty: the pod is to be refused with these sentences.
    pub unsupported: Vec<FieldError>,
}

/// A manifest that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ManifestProblem {
    /// The file, or the directory where that could not be read.
    pub file: PathBuf,
    /// `namespace/name` of the pod, where the file got as far as naming one.
    pub pod: Option<String>,
    /// What is wrong and what to do about it, one line for each mistake.
    pub message: String,
    /// Since when this is so.
    pub since: Timestamp,
}
