//! Streamed lists, one batch per message (KEP-5825; containerd 2.4), so that no list is too large. That a runtime does not
//! support them is remembered until the connection is lost, because a newer one may replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::super::calls::CallSubject;
use super::super::{CriError, Operation};
use super::connection::{CriClient, MAX_MESSAGE_BYTES};

/// Whether the runtime may support streamed lists. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct StreamSupport(Arc<AtomicBool>);

impl Default for StreamSupport {
    /// Supported, until a call shows the opposite.
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl StreamSupport {
    /// Forgets that streamed lists are unsupported, after a lost connection.
    pub(super) fn reset(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn may_be_supported(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn mark_unsupported(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A streamed list.
pub(super) struct StreamedList {
    /// The operation, named like the plain list.
    pub(super) operation: Operation,
    /// The full method name.
    pub(super) method: &'static str,
}

/// Lists by stream if supported, otherwise by `call`.
pub(super) async fn list<Q, B, A, T>(
    client: &CriClient,
    list: StreamedList,
    streamed: Q,
    batch: fn(B) -> Vec<T>,
    call: impl Future<Output = Result<Response<A>, Status>> + Send,
    items: fn(A) -> Vec<T>,
) -> Result<Vec<T>, CriError>
where
    Q: Message + 'static,
    B: Message + Default + 'static,
    A: Send,
    T: Send + 'static,
{
    let operation = list.operation;
    match collect(client, list, streamed, batch).await? {
        Some(all) => Ok(all),
        None => client.call(operation, CallSubject::Node, call).await.map(items),
    }
}

/// All items of the stream; `None` if the runtime does not support it. All batches together have the deadline of an
/// ordinary call, and a broken stream is an error, as for a plain list.
async fn collect<Q, B, T>(
    client: &CriClient,
    list: StreamedList,
    request: Q,
    items: fn(B) -> Vec<T>,
) -> Result<Option<Vec<T>>, CriError>
where
    Q: Message + 'static,
    B: Message + Default + 'static,
    T: Send + 'static,
{
    if !client.streams().may_be_supported() {
        return Ok(None);
    }
    let StreamedList { operation, method } = list;
    let call = async {
        let mut grpc = Grpc::new(client.channel()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let (codec, path) = (ProstCodec::<Q, B>::default(), PathAndQuery::from_static(method));
        let mut batches = grpc.server_streaming(Request::new(request), path, codec).await?.into_inner();
        let mut all = Vec::new();
        while let Some(batch) = batches.message().await? {
            all.extend(items(batch));
        }
        Ok(Response::new(all))
    };
    match client.call(operation, CallSubject::Node, call).await {
        Ok(all) => Ok(Some(all)),
        Err(CriError::Unimplemented { .. }) => {
            client.streams().mark_unsupported();
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use futures::future::{BoxFuture, FutureExt};
    use futures::stream::{self, BoxStream, StreamExt};
    use hostlet_proto::cri::{StreamContainersRequest, StreamContainersResponse};
    use tonic::body::Body;
    use tonic::server::{Grpc, NamedService, ServerStreamingService};
    use tower::Service;

    use super::super::super::{RuntimeService, wire};
    use super::*;

    /// A runtime with one method: a stream of containers in two batches, if supported.
    #[derive(Clone)]
    struct Streams {
        streams: bool,
        stream_calls: Arc<AtomicUsize>,
    }

    impl NamedService for Streams {
        const NAME: &'static str = "runtime.v1.RuntimeService";
    }

    impl ServerStreamingService<StreamContainersRequest> for Streams {
        type Response = StreamContainersResponse;
        type ResponseStream = BoxStream<'static, Result<StreamContainersResponse, Status>>;
        type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

        fn call(&mut self, _: Request<StreamContainersRequest>) -> Self::Future {
            self.stream_calls.fetch_add(1, Ordering::Relaxed);
            if !self.streams {
                return ready(Err(Status::unknown("stream is not implemented yet")));
            }
            let batch = |names: &[&str]| StreamContainersResponse {
                containers: names.iter().map(|name| container(name)).collect(),
            };
            ready(Ok(Response::new(stream::iter([Ok(batch(&["a", "b"])), Ok(batch(&["c"]))]).boxed())))
        }
    }

    impl Service<http::Request<Body>> for Streams {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let service = self.clone();
            async move {
                if request.uri().path() != hostlet_proto::cri::STREAM_CONTAINERS {
                    return Ok(Status::unimplemented("no other call").into_http());
                }
                Ok(Grpc::new(ProstCodec::default()).server_streaming(service, request).await)
            }
            .boxed()
        }
    }

    fn container(name: &str) -> wire::Container {
        let labels = [
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.name", "p"),
            ("io.kubernetes.pod.uid", "u"),
            ("io.kubernetes.container.name", name),
        ];
        wire::Container {
            id: name.to_owned(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..wire::Container::default()
        }
    }

    /// A client of such a runtime, and the number of its stream requests. The server stops with the test.
    async fn client_of(streams: bool) -> (CriClient, Arc<AtomicUsize>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cri.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let stream_calls = Arc::new(AtomicUsize::new(0));
        let service = Streams { streams, stream_calls: stream_calls.clone() };
        let incoming = stream::unfold(listener, |listener| async move {
            let accepted = listener.accept().await.map(|(connection, _)| connection);
            Some((accepted, listener))
        });
        let server = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(server);
        (CriClient::new(&socket, Duration::from_secs(60)), stream_calls, dir)
    }

    #[tokio::test]
    async fn all_batches_make_one_list() {
        let (client, _, _dir) = client_of(true).await;
        let listed = client.list_containers(None).await.unwrap();
        let names: Vec<&str> = listed.iter().map(|container| &*container.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn a_runtime_without_streams_receives_one_request_per_connection() {
        let (client, stream_calls, _dir) = client_of(false).await;
        for _ in 0..3 {
            // This one has no plain lists either, so the error shows that they were requested.
            let error = client.list_containers(None).await.unwrap_err();
            assert!(
                matches!(error, CriError::Unimplemented { operation: Operation::ListContainers }),
                "{error:?}"
            );
        }
        assert_eq!(stream_calls.load(Ordering::Relaxed), 1);
        client.streams().reset();
        client.list_containers(None).await.unwrap_err();
        assert_eq!(stream_calls.load(Ordering::Relaxed), 2);
    }
}
