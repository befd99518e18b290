//! The gRPC client with drivers on real sockets.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::PathBuf;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use hostlet_plugins::fake::SocketServer;
use hostlet_proto::dra::{
    NODE_LIST_AND_WATCH_RESOURCES, NodeListAndWatchResourcesRequest, NodeListAndWatchResourcesResponse,
};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use super::*;
use crate::resource_slices::testing::{devices, message};

/// What a driver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// These many devices in a message, then the end of the stream.
    Devices(usize),
    /// An error after a message.
    Error,
    /// It has the method, but does not implement it.
    NotImplemented,
    /// It does not have the method.
    OtherService,
    /// It never says anything.
    Nothing,
}

type Message = Result<NodeListAndWatchResourcesResponse, Status>;

#[derive(Clone)]
struct Driver(Answer);

impl NamedService for Driver {
    const NAME: &'static str = "v1alpha3.Node";
}

impl ServerStreamingService<NodeListAndWatchResourcesRequest> for Driver {
    type Response = NodeListAndWatchResourcesResponse;
    type ResponseStream = BoxStream<'static, Message>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<NodeListAndWatchResourcesRequest>) -> Self::Future {
        let some = |number| Ok(message(&devices(0..number, 1), false));
        let messages: Vec<Message> = match self.0 {
            Answer::Devices(number) => vec![some(number)],
            Answer::Error => vec![some(1), Err(Status::internal("the hardware burns"))],
            Answer::NotImplemented | Answer::OtherService => return ready(Err(Status::unimplemented("no"))),
            Answer::Nothing => return ready(Ok(Response::new(stream::pending().boxed()))),
        };
        ready(Ok(Response::new(stream::iter(messages).boxed())))
    }
}

impl Service<http::Request<Body>> for Driver {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let driver = self.clone();
        async move {
            if driver.0 == Answer::OtherService || request.uri().path() != NODE_LIST_AND_WATCH_RESOURCES {
                return Ok(Status::unimplemented("unknown service").into_http());
            }
            let mut grpc = Grpc::new(ProstCodec::default()).max_encoding_message_size(usize::MAX);
            Ok(grpc.server_streaming(driver, request).await)
        }
        .boxed()
    }
}

/// Starts a driver on a socket in this directory, which is removed with it.
fn driver(answer: Answer) -> (PathBuf, tempfile::TempDir, SocketServer) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("dra.sock");
    let server = SocketServer::start(&socket, Driver(answer)).unwrap();
    (socket, dir, server)
}

/// The numbers of devices in a driver's messages, and how the stream ended.
async fn read(answer: Answer) -> (Vec<usize>, Option<StreamError>) {
    let (socket, _dir, _server) = driver(answer);
    let mut messages = GrpcDial.open(&socket).await.unwrap();
    let mut all = Vec::new();
    loop {
        match messages.next().await {
            Some(Ok(message)) => {
                all.push(message.resources[0].named_resources.as_ref().unwrap().instances.len());
            }
            Some(Err(error)) => return (all, Some(error)),
            None => return (all, None),
        }
    }
}

#[tokio::test]
async fn messages_and_ends_of_streams() {
    assert!(matches!(read(Answer::Devices(5000)).await, (all, None) if all == [5000]));
    let (all, error) = read(Answer::Error).await;
    assert_eq!(all, [1]);
    let text = error.unwrap().to_string();
    assert!(text.contains("Internal") && text.contains("the hardware burns"), "{text}");
    for answer in [Answer::NotImplemented, Answer::OtherService] {
        assert!(
            matches!(read(answer).await, (all, Some(StreamError::Unimplemented)) if all.is_empty()),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_an_error() {
    let (all, error) = read(Answer::Devices(600_000)).await;
    let text = error.unwrap().to_string();
    assert!(all.is_empty() && text.contains("too large"), "{text}");
}

#[tokio::test]
async fn a_silent_driver_is_no_error() {
    let (socket, _dir, _server) = driver(Answer::Nothing);
    let mut messages = GrpcDial.open(&socket).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_millis(200), messages.next()).await;
    assert!(answer.is_err(), "it says nothing");
}

#[tokio::test]
async fn a_dead_socket_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("dra.sock");
    let text = GrpcDial.open(&socket).await.err().unwrap().to_string();
    assert!(text.contains("dra.sock"), "{text}");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(matches!(GrpcDial.open(&socket).await.err(), Some(StreamError::Dial { .. })));
}
