//! Error responses: a status and a text for users.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::find::FindError;
use crate::cri::CriError;
use crate::log::LogError;
use crate::types::error_chain;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The target is ambiguous or missing.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The runtime returned an error.
    #[error("the request to the container runtime failed")]
    Runtime(#[from] CriError),
}

impl RequestError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Find(error) if error.is_not_found() => StatusCode::NOT_FOUND,
            Self::Find(_) => StatusCode::BAD_REQUEST,
            Self::Log(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Runtime(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        (self.status(), error_chain(&self)).into_response()
    }
}
