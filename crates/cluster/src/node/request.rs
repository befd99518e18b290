//! Requests with a timeout that does not depend on the connection.

use std::future::Future;
use std::time::Duration;

use hostlet_base::error_chain;

use crate::api::{ApiErrorKind, error_kind, message};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The API server rejected it, or could not be reached.
    #[error("the request to the API server failed")]
    Api(#[from] Box<kube::Error>),
    /// No response in time. The request may have taken effect anyway.
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
}

impl RequestError {
    pub(crate) fn error_kind(&self) -> ApiErrorKind {
        match self {
            Self::Api(error) => error_kind(error),
            Self::TimedOut(_) => ApiErrorKind::Unavailable,
        }
    }

    /// What went wrong, in the server's words if it answered.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Api(error) => message(error),
            Self::TimedOut(_) => error_chain(self),
        }
    }

    /// The pause that the server requests ([`ApiErrorKind::retry_after`]).
    pub(crate) fn retry_after(&self) -> Duration {
        self.error_kind().retry_after()
    }
}

/// Awaits a request for at most `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>> + Send,
) -> Result<T, RequestError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| RequestError::Api(Box::new(error))),
        Err(_) => Err(RequestError::TimedOut(limit)),
    }
}
