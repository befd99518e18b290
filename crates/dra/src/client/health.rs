//! The stream on which an instance of a driver reports the health of its devices. Opens it; does not open it again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use hostlet_base::one_line;
use hostlet_proto::dra_health::{NodeWatchResourcesRequest, NodeWatchResourcesResponse};
use http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::versions::HealthVersion;
use super::wire::MAX_TEXT;

/// Limit of connecting to a driver.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

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
}

impl GrpcHealth {
    pub(crate) fn new(version: HealthVersion, socket: &Path) -> Self {
        Self { version, socket: socket.to_owned() }
    }
}

#[async_trait]
impl HealthService for GrpcHealth {
    async fn watch(&self) -> Result<HealthStream, WatchError> {
        let connecting = timeout(DIAL_TIMEOUT, hostlet_plugins::connect(&self.socket)).await;
        let channel = match connecting {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => {
                return Err(WatchError::Failed(hostlet_plugins::root_cause(&error, MAX_TEXT)));
            }
            Err(_) => return Err(WatchError::Failed("the driver accepts no connection".to_owned())),
        };
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MESSAGE_MAX);
        let ready = grpc.ready().await;
        ready.map_err(|error| WatchError::Failed(hostlet_plugins::root_cause(&error, MAX_TEXT)))?;
        let codec = ProstCodec::<NodeWatchResourcesRequest, NodeWatchResourcesResponse>::default();
        let path = PathAndQuery::from_static(self.version.method());
        let request = Request::new(NodeWatchResourcesRequest {});
        let stream = grpc.server_streaming(request, path, codec).await.map_err(|status| failed(&status))?;
        Ok(stream.into_inner().map(|message| message.map_err(|status| failed(&status))).boxed())
    }
}

fn failed(status: &Status) -> WatchError {
    match status.code() {
        Code::Unimplemented => WatchError::Unimplemented,
        code => WatchError::Failed(one_line(&format!("{code:?}: {}", status.message()), MAX_TEXT)),
    }
}
