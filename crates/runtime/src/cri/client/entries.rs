//! Requests lists whose entries are not decoded yet.

use bytes::Bytes;
use hostlet_proto::listed::{self, Entries};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::super::{CriError, Operation};
use super::connection::CriClient;
use super::streams::{self, Batches};
use super::traced::Traced;

/// A list of everything: its plain and its streamed method.
pub(super) struct ListMethod {
    operation: Operation,
    plain: &'static str,
    streamed: &'static str,
}

/// The list of sandboxes.
pub(super) const SANDBOXES: ListMethod = ListMethod {
    operation: Operation::ListSandboxes,
    plain: listed::LIST_SANDBOXES,
    streamed: listed::STREAM_SANDBOXES,
};

/// The list of containers.
pub(super) const CONTAINERS: ListMethod = ListMethod {
    operation: Operation::ListContainers,
    plain: listed::LIST_CONTAINERS,
    streamed: listed::STREAM_CONTAINERS,
};

/// The entries of everything. `plain` and `streamed` are the requests of the method's two forms.
pub(super) async fn list<P, S>(
    client: &CriClient,
    method: &ListMethod,
    plain: P,
    streamed: S,
) -> Result<Vec<Bytes>, CriError>
where
    P: Message + 'static,
    S: Message + 'static,
{
    let entries = |answer: Entries| answer.entries;
    let stream = open(client.grpc(), method.streamed, streamed);
    let call = call(client.grpc(), method.plain, plain);
    streams::list(client, method.operation, Batches { stream, items: entries }, call, entries).await
}

async fn call<P: Message + 'static>(
    mut grpc: Grpc<Traced>,
    method: &'static str,
    request: P,
) -> Result<Response<Entries>, Status> {
    ready(&mut grpc).await?;
    let codec = ProstCodec::<P, Entries>::default();
    grpc.unary(Request::new(request), PathAndQuery::from_static(method), codec).await
}

async fn open<S: Message + 'static>(
    mut grpc: Grpc<Traced>,
    method: &'static str,
    request: S,
) -> Result<Response<Streaming<Entries>>, Status> {
    ready(&mut grpc).await?;
    let codec = ProstCodec::<S, Entries>::default();
    grpc.server_streaming(Request::new(request), PathAndQuery::from_static(method), codec).await
}

async fn ready(grpc: &mut Grpc<Traced>) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))
}
