//! Requests with an end: each takes at most so long, whatever the connection does.

use std::future::Future;
use std::time::Duration;

use crate::api::{ApiErrorKind, error_kind};

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The API server refused it, or could not be reached.
    #[error("the API server did not do it")]
    Api(#[from] Box<kube::Error>),
    /// It did not answer in time. It may have done it all the same.
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
}

impl RequestError {
    /// What it means.
    pub(super) fn error_kind(&self) -> ApiErrorKind {
        match self {
            Self::Api(error) => error_kind(error),
            Self::TimedOut(_) => ApiErrorKind::Unavailable,
        }
    }

    /// How long the server wants to be left alone; zero if it does not say.
    pub(super) fn retry_after(&self) -> Duration {
        self.error_kind().wished_pause()
    }
}

/// Awaits a request for at most `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>> + Send,
) -> Result<T, RequestError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| RequestError::Api(Box::new(error))),
        Err(_) => Err(RequestError::TimedOut(limit)),
    }
}
