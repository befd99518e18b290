//! Streamed lists, one batch per message (KEP-5825; containerd 2.4), so that no list is too large. That a runtime does not
//! support them is remembered until the connection is lost, because a newer one may replace it.

use tonic::{Response, Status, Streaming};

use super::super::calls::CallSubject;
use super::super::{CriError, Operation};
use super::connection::CriClient;

/// A list as a stream.
pub(super) struct Batches<F, B, T> {
    /// The call that opens the stream.
    pub(super) stream: F,
    /// The items of a message.
    pub(super) items: fn(B) -> Vec<T>,
}

/// Lists by stream if supported, otherwise by `call`. `operation` is the one of the plain list.
pub(super) async fn list<F, B, A, T>(
    client: &CriClient,
    operation: Operation,
    batches: Batches<F, B, T>,
    call: impl Future<Output = Result<Response<A>, Status>> + Send,
    items: fn(A) -> Vec<T>,
) -> Result<Vec<T>, CriError>
where
    F: Future<Output = Result<Response<Streaming<B>>, Status>> + Send,
    B: Send,
    A: Send,
    T: Send,
{
    match collect(client, operation, batches).await? {
        Some(all) => Ok(all),
        None => client.call(operation, CallSubject::Node, call).await.map(items),
    }
}

/// All items of the stream; `None` if the runtime does not support it. All batches together have the deadline of an
/// ordinary call, and a broken stream is an error, as for a plain list.
async fn collect<F, B, T>(
    client: &CriClient,
    operation: Operation,
    batches: Batches<F, B, T>,
) -> Result<Option<Vec<T>>, CriError>
where
    F: Future<Output = Result<Response<Streaming<B>>, Status>> + Send,
    B: Send,
    T: Send,
{
    if !client.streams().may_be_supported() {
        return Ok(None);
    }
    let call = async {
        let mut stream = batches.stream.await?.into_inner();
        let mut all = Vec::new();
        while let Some(batch) = stream.message().await? {
            all.extend((batches.items)(batch));
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use futures::stream::{self, BoxStream, StreamExt};
    use tonic::Request;

    use super::super::super::wire::runtime_service_server::{RuntimeService, RuntimeServiceServer};
    use super::super::super::wire::{self, StreamContainersRequest, StreamContainersResponse};
    use super::*;
    use crate::cri::RuntimeService as _;

    /// A runtime with one method: a stream of containers in two batches, if supported.
    struct Streams {
        streams: bool,
        stream_calls: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl RuntimeService for Streams {
        async fn stream_containers(
            &self,
            _: Request<StreamContainersRequest>,
        ) -> Result<Response<BoxStream<'static, Result<StreamContainersResponse, Status>>>, Status> {
            self.stream_calls.fetch_add(1, Ordering::Relaxed);
            if !self.streams {
                return Err(Status::unknown("stream is not implemented yet"));
            }
            let batch = |names: &[&str]| StreamContainersResponse {
                containers: names.iter().map(|name| container(name)).collect(),
            };
            Ok(Response::new(stream::iter([Ok(batch(&["a", "b"])), Ok(batch(&["c"]))]).boxed()))
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
        let service = RuntimeServiceServer::new(Streams { streams, stream_calls: stream_calls.clone() });
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
