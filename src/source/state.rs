//! The state of the manifest source: static pods, and problems with manifests.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod::validation::FieldError;

/// The state at one time. Every state is complete, so receivers may skip some.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceState {
    /// Whether everything was read once. Until then, a missing pod may still exist.
    pub ready: bool,
    /// The static pods: those of files, ordered by file name, then those of a URL.
    pub pods: Vec<Arc<StaticPod>>,
    /// The problems, in the same order. What has a problem may still define what it defined before.
    pub problems: Vec<ManifestProblem>,
}

/// What defines static pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManifestOrigin {
    /// The file at this path.
    File(PathBuf),
    /// The answer of this URL, which is without its password.
    Url(String),
}

impl ManifestOrigin {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file),
            Self::Url(_) => None,
        }
    }
}

impl fmt::Display for ManifestOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Url(url) => f.write_str(url),
        }
    }
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

/// A problem with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ManifestProblem {
    /// The file or the URL, or the directory if that could not be listed.
    pub origin: ManifestOrigin,
    /// `namespace/name` of the pod, if it could be decoded.
    pub pod: Option<String>,
    /// What is wrong and the remedy, one line per mistake.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}
