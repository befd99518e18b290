//! Unary calls to the services of plugins, and what a failed call means, in the words of gRPC for Go. Knows no service, and never retries.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use hostlet_telemetry::Span;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::root_cause;

/// Maximum bytes of the cause of a lost connection.
const MAX_CAUSE: usize = 1000;

/// The service that is called, in messages: what it is, and its socket.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// With an article: `the driver`.
    pub name: &'a str,
    /// Where it listens.
    pub socket: &'a Path,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// What the service, or the connection to it, gave.
    pub code: Code,
    /// As it was given: of any length, and with any characters.
    pub message: String,
}

impl CallFailure {
    /// The failure of a call to `peer`.
    pub fn new(status: &Status, peer: Peer<'_>) -> Self {
        // Only local errors have a source.
        let is_local = status.source().is_some();
        match status.code() {
            // The transport has a clock of its own for the same deadline.
            Code::Cancelled if is_local => Self::timed_out(),
            // A connection that is lost during a call has no better code. What the service did is unknown.
            Code::Unknown | Code::Internal | Code::Unavailable if is_local => {
                let cause = root_cause(status, MAX_CAUSE);
                let message = format!("connection to {} at {}: {cause}", peer.name, peer.socket.display());
                Self { code: Code::Unavailable, message }
            }
            code => Self { code, message: status.message().to_owned() },
        }
    }

    /// The failure of a call that took too long.
    pub fn timed_out() -> Self {
        Self { code: Code::DeadlineExceeded, message: "context deadline exceeded".to_owned() }
    }
}

/// Calls `method`, which begins with a slash, as a span of the current trace. The service is told the deadline. `error` makes of a failure
/// what is returned and traced, so that secrets can be left out.
///
/// # Errors
/// The service answered with an error, or not in time, or cannot be reached.
pub async fn unary<Q, A, E>(
    channel: &Channel,
    method: &'static str,
    request: Q,
    deadline: Duration,
    peer: Peer<'_>,
    error: impl FnOnce(CallFailure) -> E,
) -> Result<A, E>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
    E: fmt::Display,
{
    let path = method.trim_start_matches('/');
    let (service, name) = path.split_once('/').unwrap_or_default();
    let text = str::to_owned;
    let span = Span::call(
        || text(path),
        || vec![("rpc.system", text("grpc")), ("rpc.service", text(service)), ("rpc.method", text(name))],
    );
    let mut request = Request::new(request);
    // The service may give up in time, too.
    request.set_timeout(deadline);
    if let Some(header) = span.header().and_then(|header| header.parse().ok()) {
        request.metadata_mut().insert("traceparent", header);
    }
    let work = async {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let codec = ProstCodec::<Q, A>::default();
        grpc.unary(request, PathAndQuery::from_static(method), codec).await
    };
    let failure = match timeout(deadline, work).await {
        Ok(Ok(response)) => return Ok(response.into_inner()),
        Ok(Err(status)) => CallFailure::new(&status, peer),
        Err(_) => CallFailure::timed_out(),
    };
    let error = error(failure);
    span.failed(error.to_string());
    tracing::debug!(peer = %peer.socket.display(), call = name, %error, "a call to a plugin failed");
    Err(error)
}

/// The name of a code in gRPC for Go.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
