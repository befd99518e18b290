//! Errors of requests for streams. Status codes and texts are upstream's.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hostlet_base::{error_chain, go_quoted};
use hostlet_runtime::cri::CriError;
use hostlet_runtime::streaming::{StreamUrlError, StreamingError};

use super::super::answers::line;
use super::query::QueryError;
use super::websocket::HandshakeError;

/// The runtime's message if it has promised too many sessions (`NewErrorTooManyInFlight`), and the seconds that a promise lasts.
const TOO_MANY: &str = "maximum number of in-flight requests exceeded";
const PROMISE_SECONDS: &str = "60";

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The query asks for nothing.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// This node has no such pod.
    #[error("pod does not exist")]
    NoPod,
    /// The pod has another UID.
    #[error("pod not found")]
    OtherUid,
    /// The pod of an attachment has another UID.
    #[error("pod {0} not found")]
    OtherPod(String),
    /// No such container runs.
    #[error("container not found ({})", go_quoted(.0))]
    NotRunning(String),
    /// There is no such container to attach to.
    #[error("container {container} not found in pod {pod}")]
    NothingToAttach {
        /// Its name.
        container: String,
        /// The pod's name and namespace.
        pod: String,
    },
    /// The pod does not run.
    #[error("pod not found ({})", go_quoted(.0))]
    PodNotRunning(String),
    /// The command of `/run` exited with a code that is not zero.
    #[error("command '{command}' exited with {code}: {stderr}")]
    Exited {
        /// Its words.
        command: String,
        code: i32,
        /// What it said.
        stderr: String,
    },
    /// The runtime could not run the command of `/run`.
    #[error("rpc error: code = {} desc = {}", grpc_code(.0), .0)]
    NotRun(CriError),
    /// The runtime returned an error.
    #[error("rpc error: code = {} desc = {}", grpc_code(.0), .0)]
    Runtime(CriError),
    /// The runtime's URL leads nowhere.
    #[error(transparent)]
    Url(#[from] StreamUrlError),
    /// The client wants no stream.
    #[error("Upgrade request required")]
    NoUpgrade,
    /// The client is no WebSocket client.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The runtime's server failed.
    #[error(transparent)]
    Streaming(#[from] StreamingError),
    /// It answered with something else than an error.
    #[error("invalid upgrade response: status code {0}")]
    InvalidAnswer(u16),
}

fn grpc_code(error: &CriError) -> &'static str {
    match error {
        CriError::Unreachable { .. } => "Unavailable",
        CriError::TimedOut { .. } => "DeadlineExceeded",
        CriError::NotFound { .. } => "NotFound",
        CriError::Unimplemented { .. } => "Unimplemented",
        CriError::TooLarge { .. } => "ResourceExhausted",
        CriError::Failed { message, .. } if message.contains(TOO_MANY) => "ResourceExhausted",
        CriError::Failed { .. } | CriError::Malformed { .. } => "Unknown",
    }
}

impl RequestError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Query(_) | Self::Handshake(_) => StatusCode::BAD_REQUEST,
            Self::NoPod | Self::OtherUid => StatusCode::NOT_FOUND,
            Self::Runtime(error) => match grpc_code(error) {
                "NotFound" => StatusCode::NOT_FOUND,
                "ResourceExhausted" => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
            Self::OtherPod(_)
            | Self::NotRunning(_)
            | Self::NothingToAttach { .. }
            | Self::PodNotRunning(_)
            | Self::Exited { .. }
            | Self::NotRun(_)
            | Self::Url(_)
            | Self::NoUpgrade
            | Self::Streaming(_)
            | Self::InvalidAnswer(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether upstream's proxy reports it, which does it by Go's `http.Error`.
    fn is_of_proxy(&self) -> bool {
        matches!(self, Self::NoUpgrade | Self::Streaming(_) | Self::InvalidAnswer(_))
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let status = self.status();
        let text = error_chain(&self);
        if self.is_of_proxy() {
            return line(status, &text);
        }
        let mut response = (status, text).into_response();
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(PROMISE_SECONDS));
        }
        response
    }
}
