//! Errors as gRPC statuses, as containerd maps them.

use hostlet_runtime::cri::CriError;
use tonic::{Response, Status};

/// Converts the outcome of a call to a gRPC response.
pub(super) fn answer<T, W>(outcome: Result<T, CriError>, wire: impl FnOnce(T) -> W) -> Outcome<W> {
    outcome.map(|value| Response::new(wire(value))).map_err(status)
}

/// The result of a call of the server.
pub(super) type Outcome<T> = Result<Response<T>, Status>;

pub(super) fn status(error: CriError) -> Status {
    let message = error.to_string();
    match error {
        CriError::Unreachable { .. } => Status::unavailable(message),
        CriError::TimedOut { .. } => Status::deadline_exceeded(message),
        CriError::NotFound { .. } => Status::not_found(message),
        CriError::Unimplemented { .. } => Status::unimplemented(message),
        CriError::Failed { .. } => Status::unknown(message),
        CriError::TooLarge { message, .. } => Status::resource_exhausted(message),
        CriError::Malformed { .. } => Status::internal(message),
    }
}

/// A request lacks a part that it must have.
pub(super) fn missing(part: &str) -> Status {
    Status::invalid_argument(format!("the request has no {part}"))
}
