//! The stream on which an instance of a driver reports the health of its devices. Opens it; does not open it again.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use hostlet_base::one_line;
use hostlet_plugins::{CallFailure, Peer, root_cause};
use hostlet_proto::dra_health::{NodeWatchResourcesRequest, NodeWatchResourcesResponse};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::versions::HealthVersion;
use super::wire::MAX_TEXT;

/// Maximum size of a message: several times the size of the devices that are kept.
const MESSAGE_MAX: usize = 16 << 20;

/// Why there is no stream, or why it ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WatchError {
    /// The driver names the service, and does not serve it.
    #[error("the driver does not report the health of devices")]
    Unimplemented,
    #[error("{0}")]
    Failed(String),
}

/// Messages of a driver.
pub(crate) type HealthStream = BoxStream<'static, Result<NodeWatchResourcesResponse, WatchError>>;

/// Reports the health of a driver's devices.
#[async_trait]
pub(crate) trait HealthService: Send + Sync + 'static {
    /// Opens the stream. Dropping the future or the stream closes it.
    async fn watch(&self) -> Result<HealthStream, WatchError>;
}

/// One instance of a driver.
pub(crate) struct GrpcHealth {
    version: HealthVersion,
    socket: PathBuf,
    channel: Channel,
}

impl GrpcHealth {
    /// A client on the connection to `socket` that the other calls use.
    pub(crate) fn new(version: HealthVersion, socket: &Path, channel: Channel) -> Self {
        Self { version, socket: socket.to_owned(), channel }
    }

    fn failed(&self, status: &Status) -> WatchError {
        let CallFailure { code, message } =
            CallFailure::new(status, Peer { name: "the driver", socket: &self.socket });
        failed(code, &message)
    }
}

#[async_trait]
impl HealthService for GrpcHealth {
    async fn watch(&self) -> Result<HealthStream, WatchError> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_MAX);
        let ready = grpc.ready().await;
        ready.map_err(|error| WatchError::Failed(root_cause(&error, MAX_TEXT)))?;
        let codec = ProstCodec::<NodeWatchResourcesRequest, NodeWatchResourcesResponse>::default();
        let path = PathAndQuery::from_static(self.version.method());
        let request = Request::new(NodeWatchResourcesRequest {});
        let stream =
            grpc.server_streaming(request, path, codec).await.map_err(|status| self.failed(&status))?;
        let failed = |status: Status| failed(status.code(), status.message());
        Ok(stream.into_inner().map(move |message| message.map_err(failed)).boxed())
    }
}

fn failed(code: Code, message: &str) -> WatchError {
    match code {
        Code::Unimplemented => WatchError::Unimplemented,
        code => WatchError::Failed(one_line(&format!("{code:?}: {message}"), MAX_TEXT)),
    }
}
