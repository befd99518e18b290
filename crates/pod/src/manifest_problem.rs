//! Problems with manifests, and what they are in. Plain values: `engine::source` finds them.

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

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

/// Why a manifest, or the pod in it, is not run.
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
