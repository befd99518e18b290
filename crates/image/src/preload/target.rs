//! What an image record refers to.

use super::Digest;

/// The target of an image record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Media type of the manifest or index.
    pub media_type: String,
    /// Digest of the manifest or index.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
}
