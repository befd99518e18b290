//! Where a manifest is read from, as far as its meaning depends on it.

use std::path::Path;

/// Who can read or change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Only its owner, who is the daemon's user: root.
    Private,
    /// Others as well, by its mode.
    Shared,
    /// Another owner.
    Foreign,
}

/// A file and the node that reads it.
#[derive(Clone, Copy, Debug)]
pub struct ManifestContext<'a> {
    /// Path of the manifest, from which the pod's UID follows, too.
    pub file: &'a Path,
    /// Who can read or change it.
    pub access: FileAccess,
    /// The node's name, which is appended to the names of static pods.
    pub node_name: &'a str,
    /// Whether the node has no API server. Only then do objects in manifests serve pods.
    pub is_alone: bool,
}
