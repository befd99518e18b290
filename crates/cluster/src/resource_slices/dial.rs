//! The gRPC client of a driver's `v1alpha3.Node` service.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use hostlet_proto::dra::{
    NODE_LIST_AND_WATCH_RESOURCES, NodeListAndWatchResourcesRequest, NodeListAndWatchResourcesResponse,
};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::stream::{Dial, Messages, StreamError};

/// Maximum size of a message: several times the size of 5,000 devices.
const MESSAGE_MAX: usize = 16 << 20;

/// Limit of connecting to a driver.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Dials Unix sockets.
#[derive(Debug)]
pub(super) struct GrpcDial;

#[async_trait]
impl Dial for GrpcDial {
    async fn open(&self, endpoint: &Path) -> Result<Messages, StreamError> {
        let channel = match tokio::time::timeout(DIAL_TIMEOUT, hostlet_plugins::connect(endpoint)).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(source)) => return Err(StreamError::Dial { endpoint: endpoint.to_owned(), source }),
            Err(_) => {
                return Err(StreamError::DialTimedOut { endpoint: endpoint.to_owned(), limit: DIAL_TIMEOUT });
            }
        };
        let messages = stream::once(call(channel)).try_flatten().map_err(|status| failed(&status));
        Ok(messages.boxed())
    }
}

/// Calls the method.
async fn call(channel: Channel) -> Result<Streaming<NodeListAndWatchResourcesResponse>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MESSAGE_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
    let codec = ProstCodec::<NodeListAndWatchResourcesRequest, NodeListAndWatchResourcesResponse>::default();
    let path = PathAndQuery::from_static(NODE_LIST_AND_WATCH_RESOURCES);
    let request = Request::new(NodeListAndWatchResourcesRequest {});
    Ok(grpc.server_streaming(request, path, codec).await?.into_inner())
}

fn failed(status: &Status) -> StreamError {
    match status.code() {
        Code::Unimplemented => StreamError::Unimplemented,
        code => StreamError::Failed { code, message: status.message().to_owned() },
    }
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
