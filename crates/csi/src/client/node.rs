//! Calls to one instance of a driver. Owns the connection, which is established when it is needed, the deadline, and what the driver
//! said that it can do. Never retries.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::one_line;
use hostlet_plugins::{lazy_channel, root_cause};
use hostlet_proto::csi;
use hostlet_telemetry::Span;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::hidden::Hidden;
use super::metrics::CallMetrics;
use super::wire;
use crate::call::code_name;
use crate::{
    CallError, ExpandCall, NodeCapabilities, NodeInfo, NodeService, PublishCall, StageCall, VolumeStats,
};

/// Deadline of a call (upstream `csiTimeout`).
const DEADLINE: Duration = Duration::from_secs(120);

/// Maximum bytes of a driver's own error text, which may have the output of a program.
const MAX_TEXT: usize = 1000;

const CAPABILITIES: &str = "/csi.v1.Node/NodeGetCapabilities";
const INFO: &str = "/csi.v1.Node/NodeGetInfo";
const STAGE: &str = "/csi.v1.Node/NodeStageVolume";
const UNSTAGE: &str = "/csi.v1.Node/NodeUnstageVolume";
const PUBLISH: &str = "/csi.v1.Node/NodePublishVolume";
const UNPUBLISH: &str = "/csi.v1.Node/NodeUnpublishVolume";
const EXPAND: &str = "/csi.v1.Node/NodeExpandVolume";
const STATS: &str = "/csi.v1.Node/NodeGetVolumeStats";

/// The node service of one instance of a driver.
pub(crate) struct GrpcNodeService {
    driver: String,
    socket: PathBuf,
    channel: Channel,
    deadline: Duration,
    capabilities: OnceCell<NodeCapabilities>,
    metrics: CallMetrics,
}

impl GrpcNodeService {
    /// A client of the driver of this name on `socket`. Connects with the first call. Must be called in a tokio runtime.
    pub(crate) fn new(driver: &str, socket: &Path, metrics: CallMetrics) -> Self {
        Self {
            driver: driver.to_owned(),
            socket: socket.to_owned(),
            channel: lazy_channel(socket),
            deadline: DEADLINE,
            capabilities: OnceCell::new(),
            metrics,
        }
    }

    /// The same with another deadline.
    #[cfg(test)]
    pub(super) fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Calls `method`. What is hidden is not printed.
    async fn call<Q, A>(&self, method: &'static str, request: Q, hidden: Hidden<'_>) -> Result<A, CallError>
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
            Ok(Err(status)) => Err(self.error(name, &status, hidden)),
            Err(_) => Err(timed_out(name)),
        };
        let code = answer.as_ref().err().map_or(Code::Ok, |error| error.code);
        self.metrics.ended(&self.driver, method, code_name(code), began.elapsed());
        if let Err(error) = &answer {
            span.failed(error.to_string());
            tracing::debug!(driver = self.driver, call = name, %error, "a call to a CSI driver failed");
        }
        answer
    }

    fn error(&self, call: &'static str, status: &Status, hidden: Hidden<'_>) -> CallError {
        // Only local errors have a source.
        let is_local = status.source().is_some();
        let (code, message) = match status.code() {
            // The transport has a clock of its own for the same deadline.
            Code::Cancelled if is_local => return timed_out(call),
            // A connection that is lost during a call has no better code. What the driver did is unknown.
            Code::Unknown | Code::Internal | Code::Unavailable if is_local => {
                let socket = self.socket.display();
                let cause = root_cause(status, MAX_TEXT);
                (Code::Unavailable, format!("connection to the driver at {socket}: {cause}"))
            }
            code => (code, hidden.removed_from(status.message())),
        };
        CallError { call, code, message: one_line(&message, MAX_TEXT) }
    }
}

fn timed_out(call: &'static str) -> CallError {
    CallError { call, code: Code::DeadlineExceeded, message: "context deadline exceeded".to_owned() }
}

#[async_trait]
impl NodeService for GrpcNodeService {
    async fn capabilities(&self) -> Result<NodeCapabilities, CallError> {
        let ask = async || {
            let request = csi::NodeGetCapabilitiesRequest {};
            let answer = self.call(CAPABILITIES, request, Hidden::default()).await?;
            Ok(wire::capabilities(&answer))
        };
        self.capabilities.get_or_try_init(ask).await.copied()
    }

    async fn info(&self) -> Result<NodeInfo, CallError> {
        let answer = self.call(INFO, csi::NodeGetInfoRequest {}, Hidden::default()).await?;
        Ok(wire::info(answer))
    }

    async fn stage(&self, call: &StageCall) -> Result<(), CallError> {
        let request = wire::stage(call, self.capabilities().await?);
        let hidden = Hidden { secrets: Some(&call.secrets), context: Some(&call.context) };
        self.call::<_, csi::NodeStageVolumeResponse>(STAGE, request, hidden).await.map(drop)
    }

    async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), CallError> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: handle.to_owned(),
            staging_target_path: wire::text(staging),
        };
        self.call::<_, csi::NodeUnstageVolumeResponse>(UNSTAGE, request, Hidden::default()).await.map(drop)
    }

    async fn publish(&self, call: &PublishCall) -> Result<(), CallError> {
        let request = wire::publish(call, self.capabilities().await?);
        let hidden = Hidden { secrets: Some(&call.secrets), context: Some(&call.context) };
        self.call::<_, csi::NodePublishVolumeResponse>(PUBLISH, request, hidden).await.map(drop)
    }

    async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), CallError> {
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: handle.to_owned(), target_path: wire::text(target) };
        self.call::<_, csi::NodeUnpublishVolumeResponse>(UNPUBLISH, request, Hidden::default())
            .await
            .map(drop)
    }

    async fn expand(&self, call: &ExpandCall) -> Result<Option<u64>, CallError> {
        let request = wire::expand(call, self.capabilities().await?);
        let hidden = Hidden { secrets: Some(&call.secrets), context: None };
        Ok(wire::size(self.call(EXPAND, request, hidden).await?))
    }

    async fn stats(&self, handle: &str, path: &Path) -> Result<VolumeStats, CallError> {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: handle.to_owned(),
            volume_path: wire::text(path),
            staging_target_path: String::new(),
        };
        Ok(wire::stats(&self.call(STATS, request, Hidden::default()).await?))
    }
}
