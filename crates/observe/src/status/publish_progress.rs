//! How far the API server is behind the status cache. Whoever publishes statuses writes it.

/// How far the API server is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishProgress {
    /// The version of the status cache that was compared with the API server.
    pub version: u64,
    /// Pods with a status that the API server does not have yet.
    pub behind: usize,
}
