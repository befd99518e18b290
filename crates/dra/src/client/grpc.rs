//! Calls to one instance of a driver. Owns the connection, which is established when it is needed, and the deadline. Never retries.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::one_line;
use hostlet_plugins::{lazy_channel, root_cause};
use hostlet_proto::dra_plugin as wire_types;
use hostlet_telemetry::Span;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::metrics::CallMetrics;
use super::versions::PluginVersion;
use super::wire::{self, MAX_TEXT};
use crate::call::code_name;
use crate::{Answers, CallError, ClaimRef, Device, DriverService};

/// Deadline of a call (upstream `defaultClientCallTimeout`).
const DEADLINE: Duration = Duration::from_secs(45);

/// One instance of a driver.
pub(crate) struct GrpcDriver {
    driver: String,
    version: PluginVersion,
    socket: PathBuf,
    channel: Channel,
    deadline: Duration,
    metrics: CallMetrics,
}

impl GrpcDriver {
    /// A client of the driver of this name on `socket`. Connects with the first call. Must be called in a tokio runtime.
    pub(crate) fn new(driver: &str, version: PluginVersion, socket: &Path, metrics: CallMetrics) -> Self {
        Self {
            driver: driver.to_owned(),
            version,
            socket: socket.to_owned(),
            channel: lazy_channel(socket),
            deadline: DEADLINE,
            metrics,
        }
    }

    /// The same with another deadline.
    #[cfg(test)]
    pub(super) fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let began = Instant::now();
        let (service, name) = method.trim_start_matches('/').split_once('/').unwrap_or_default();
        let text = str::to_owned;
        let span = Span::call(
            || text(method.trim_start_matches('/')),
            || vec![("rpc.system", text("grpc")), ("rpc.service", text(service)), ("rpc.method", text(name))],
        );
        let mut request = Request::new(request);
        // The driver may give up in time, too.
        request.set_timeout(self.deadline);
        if let Some(header) = span.header().and_then(|header| header.parse().ok()) {
            request.metadata_mut().insert("traceparent", header);
        }
        let work = async {
            let mut grpc = Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let codec = ProstCodec::<Q, A>::default();
            grpc.unary(request, PathAndQuery::from_static(method), codec).await
        };
        let answer = match timeout(self.deadline, work).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.error(&status)),
            Err(_) => Err(timed_out()),
        };
        let code = answer.as_ref().err().map_or(Code::Ok, |error| error.code);
        self.metrics.ended(&self.driver, method, code_name(code), began.elapsed());
        if let Err(error) = &answer {
            span.failed(error.to_string());
            tracing::debug!(driver = self.driver, call = name, %error, "a call to a DRA driver failed");
        }
        answer
    }

    fn error(&self, status: &Status) -> CallError {
        // Only local errors have a source.
        let is_local = status.source().is_some();
        let (code, message) = match status.code() {
            // The transport has a clock of its own for the same deadline.
            Code::Cancelled if is_local => return timed_out(),
            // A connection that is lost during a call has no better code. What the driver did is unknown.
            Code::Unknown | Code::Internal | Code::Unavailable if is_local => {
                let socket = self.socket.display();
                let cause = root_cause(status, MAX_TEXT);
                (Code::Unavailable, format!("connection to the driver at {socket}: {cause}"))
            }
            code => (code, status.message().to_owned()),
        };
        CallError { code, message: one_line(&message, MAX_TEXT) }
    }
}

fn timed_out() -> CallError {
    CallError { code: Code::DeadlineExceeded, message: "context deadline exceeded".to_owned() }
}

#[async_trait]
impl DriverService for GrpcDriver {
    async fn prepare(&self, claims: &[ClaimRef]) -> Result<Answers<Vec<Device>>, CallError> {
        let request = wire_types::NodePrepareResourcesRequest { claims: wire::claims(claims) };
        self.call(self.version.prepare_method(), request).await.map(wire::prepared)
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Result<Answers<()>, CallError> {
        let request = wire_types::NodeUnprepareResourcesRequest { claims: wire::claims(claims) };
        self.call(self.version.unprepare_method(), request).await.map(wire::unprepared)
    }
}
