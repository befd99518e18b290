//! Error responses: a status and a text for users.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hostlet_base::error_chain;
use hostlet_dra::ForgetError;
use hostlet_image::gc::GcError;
use hostlet_observe::log::LogError;
use hostlet_observe::stats::MeasureError;
use hostlet_runtime::cri::CriError;

use super::find::FindError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The target is ambiguous or missing.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The pod no longer runs.
    #[error("pod {pod} {how}")]
    Ended {
        pod: String,
        /// What it does or did.
        how: &'static str,
    },
    /// The pod's containers are never restarted.
    #[error(
        "pod {pod} has restartPolicy Never: its containers are meant to run once; --force restarts them all the same"
    )]
    NeverRestarts { pod: String },
    /// Only main containers and sidecars can be restarted.
    #[error("container {container} of pod {pod} is not one of its main containers or sidecars")]
    NotLasting { pod: String, container: String },
    /// There is nothing to run.
    #[error("the command is empty")]
    NoCommand,
    /// The command could not be run, or took too long.
    #[error("running the command")]
    Exec(#[source] CriError),
    /// Nothing is measured yet.
    #[error("nothing is measured before the container runtime has answered")]
    NotMeasuredYet,
    /// What the pods use cannot be measured.
    #[error("measuring what the pods use")]
    Measure(#[source] Arc<MeasureError>),
    /// Unused images could not be looked for or removed.
    #[error("looking for unused images")]
    ImageGc(#[source] GcError),
    /// A claim cannot be given up.
    #[error(transparent)]
    Forget(#[from] ForgetError),
    /// The runtime returned an error.
    #[error("the request to the container runtime failed")]
    Runtime(#[from] CriError),
}

impl RequestError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Find(error) if error.is_not_found() => StatusCode::NOT_FOUND,
            Self::Find(_) => StatusCode::BAD_REQUEST,
            Self::NotLasting { .. } | Self::NoCommand => StatusCode::BAD_REQUEST,
            Self::Forget(ForgetError::Unknown(_)) => StatusCode::NOT_FOUND,
            Self::Forget(ForgetError::InUse(_) | ForgetError::NotStuck(_)) => StatusCode::CONFLICT,
            Self::Ended { .. } | Self::NeverRestarts { .. } => StatusCode::CONFLICT,
            Self::Exec(CriError::Unreachable { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Exec(CriError::TimedOut { .. }) => StatusCode::GATEWAY_TIMEOUT,
            Self::Exec(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Log(_) | Self::Measure(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotMeasuredYet | Self::ImageGc(_) | Self::Runtime(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        (self.status(), error_chain(&self)).into_response()
    }
}
