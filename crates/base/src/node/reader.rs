//! Reading the Node again, for decisions that must not rest on an outdated copy. `cluster::node` reads it.

use std::time::Duration;

use futures::future::BoxFuture;

/// Reads the Node.
pub trait NodeReader: Send + Sync {
    /// Reads the current Node and publishes it before returning. If this node may not read it, the last known Node stays.
    fn read(&self) -> BoxFuture<'_, Result<(), NodeReadError>>;
}

/// The API server did not answer: a later attempt may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server did not answer the request for the Node")]
pub struct NodeReadError {
    /// The pause that the API server requests before the next attempt.
    pub retry_after: Duration,
}
