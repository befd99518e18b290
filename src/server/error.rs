//! Answers that are no: a status and a text for people.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::find::FindError;
use crate::cri::CriError;
use crate::log::LogError;
use crate::types::error_chain;

/// Why a request is not answered as asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// What is meant is unclear or not there.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The runtime does not tell.
    #[error("asking the container runtime")]
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
