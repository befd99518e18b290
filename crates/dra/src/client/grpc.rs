//! Calls to one instance of a driver. Owns the connection, which is established when it is needed, and the deadline. Never retries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::one_line;
use hostlet_plugins::{CallFailure, Peer, code_name, unary};
use hostlet_proto::dra_plugin as wire_types;
use prost::Message;
use tokio::time::Instant;
use tonic::Code;
use tonic::transport::Channel;

use super::metrics::CallMetrics;
use super::versions::PluginVersion;
use super::wire::{self, MAX_TEXT};
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
    /// A client of the driver of this name on the connection to `socket`.
    pub(crate) fn new(
        driver: &str,
        version: PluginVersion,
        socket: &Path,
        channel: Channel,
        metrics: CallMetrics,
    ) -> Self {
        Self {
            driver: driver.to_owned(),
            version,
            socket: socket.to_owned(),
            channel,
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
        let peer = Peer { name: "the driver", socket: &self.socket };
        let error = |CallFailure { code, message }| CallError { code, message: one_line(&message, MAX_TEXT) };
        let answer = unary(&self.channel, method, request, self.deadline, peer, error).await;
        let code = answer.as_ref().err().map_or(Code::Ok, |error| error.code);
        self.metrics.ended(&self.driver, method, code_name(code), began.elapsed());
        answer
    }
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
