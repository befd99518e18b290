//! Calls to one instance of a driver. Owns the connection, which is established when it is needed, the deadline, and what the driver
//! said that it can do. Never retries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::one_line;
use hostlet_plugins::{CallFailure, Peer, code_name, lazy_channel, unary};
use hostlet_proto::csi;
use prost::Message;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tonic::Code;
use tonic::transport::Channel;

use super::hidden::Hidden;
use super::metrics::CallMetrics;
use super::wire;
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
        self.call_about(method, request, hidden, false).await
    }

    /// The same, about a volume that perhaps is a migrated one.
    async fn call_about<Q, A>(
        &self,
        method: &'static str,
        request: Q,
        hidden: Hidden<'_>,
        is_migrated: bool,
    ) -> Result<A, CallError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let began = Instant::now();
        let call = method.rsplit('/').next().unwrap_or_default();
        let peer = Peer { name: "the driver", socket: &self.socket };
        let error = |CallFailure { code, message }| CallError {
            call,
            code,
            message: one_line(&hidden.removed_from(&message), MAX_TEXT),
        };
        let answer = unary(&self.channel, method, request, self.deadline, peer, error).await;
        let code = answer.as_ref().err().map_or(Code::Ok, |error: &CallError| error.code);
        self.metrics.ended(&self.driver, method, code_name(code), is_migrated, began.elapsed());
        answer
    }
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
        let answer = self.call_about(STAGE, request, hidden, call.is_migrated).await;
        answer.map(|csi::NodeStageVolumeResponse {}| ())
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
        let answer = self.call_about(PUBLISH, request, hidden, call.is_migrated).await;
        answer.map(|csi::NodePublishVolumeResponse {}| ())
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
        Ok(wire::size(self.call_about(EXPAND, request, hidden, call.is_migrated).await?))
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
