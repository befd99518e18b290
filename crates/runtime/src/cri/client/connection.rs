//! The connection to the runtime: established on the first call and re-established after each loss. Owns the deadlines.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use super::super::calls::{CallSubject, Calls};
use super::super::types::{Container, Sandbox};
use super::super::wire::image_service_client::ImageServiceClient;
use super::super::wire::runtime_service_client::RuntimeServiceClient;
use super::super::{CriError, Operation};
use super::last_list::LastList;
use super::stream_support::StreamSupport;
use super::traced::Traced;

/// Maximum message size in both directions; upstream's limit.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// An ordinary call counts as hung after this time: a healthy runtime responds in milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A client of one runtime endpoint. Cheap to clone; clones share a connection.
#[derive(Clone)]
pub struct CriClient {
    channel: Channel,
    socket: PathBuf,
    timeout: Duration,
    calls: Calls,
    streams: StreamSupport,
    last_lists: Arc<LastLists>,
}

/// What was listed last, of everybody.
#[derive(Default)]
pub(super) struct LastLists {
    pub(super) sandboxes: LastList<Sandbox>,
    pub(super) containers: LastList<Container>,
}

impl CriClient {
    /// A client of the runtime on `socket`. Connects on the first call. `timeout` is `runtimeRequestTimeout`, the deadline of
    /// an ordinary call.
    pub fn new(socket: &Path, timeout: Duration) -> Self {
        let path = socket.to_owned();
        // The URI is never dialed: the connector below connects to the socket.
        let channel = Endpoint::from_static("http://cri.invalid").connect_with_connector_lazy(
            tower::service_fn(move |_| {
                let path = path.clone();
                async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
            }),
        );
        Self {
            channel,
            socket: socket.to_owned(),
            timeout,
            calls: Calls::default(),
            streams: StreamSupport::default(),
            last_lists: Arc::default(),
        }
    }

    /// Counts the calls in the metrics of `other`.
    pub fn counted_with(self, other: &Self) -> Self {
        Self { calls: other.calls.counted_with(), ..self }
    }

    /// The calls in progress.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The connection, for other services on the same socket.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The runtime's socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn streams(&self) -> &StreamSupport {
        &self.streams
    }

    pub(super) fn last_lists(&self) -> &LastLists {
        &self.last_lists
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// For methods whose messages are not those that the clients below have.
    pub(super) fn grpc(&self) -> Grpc<Traced> {
        Grpc::new(Traced::new(self.channel.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    pub(super) fn runtime(&self) -> RuntimeServiceClient<Traced> {
        RuntimeServiceClient::new(Traced::new(self.channel.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    pub(super) fn image(&self) -> ImageServiceClient<Traced> {
        ImageServiceClient::new(Traced::new(self.channel.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Awaits an ordinary call and converts its error.
    pub(super) fn call<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        subject: CallSubject,
        call: impl Future<Output = Result<Response<T>, Status>> + Send + 'a,
    ) -> impl Future<Output = Result<T, CriError>> + Send + 'a {
        self.within(operation, subject, self.timeout, PATIENCE, call)
    }

    /// Awaits `call` for at most `deadline`. It counts as hung after `patience`.
    ///
    /// Boxed: the future of a call has up to 18 KiB, which each enclosing future would contain again, for every pod that waits
    /// at the start gate.
    pub(super) fn within<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        subject: CallSubject,
        deadline: Duration,
        patience: Duration,
        call: impl Future<Output = Result<Response<T>, Status>> + Send + 'a,
    ) -> impl Future<Output = Result<T, CriError>> + Send + 'a {
        let call = Box::pin(call);
        async move {
            let _under_way = self.calls.begin(operation, subject, patience);
            let began = Instant::now();
            let answer = match tokio::time::timeout(deadline, call).await {
                Ok(Ok(response)) => Ok(response.into_inner()),
                Ok(Err(status)) => Err(self.error(operation, &status)),
                Err(_) => Err(CriError::TimedOut { operation, deadline }),
            };
            self.calls.ended(operation, began, answer.is_err());
            answer
        }
    }

    /// Converts a gRPC status.
    pub(super) fn error(&self, operation: Operation, status: &Status) -> CriError {
        let message = status.message().to_owned();
        match status.code() {
            // Only local errors have a source; a connection lost during a call has no code of its own.
            Code::Unknown if std::error::Error::source(status).is_some() => {
                self.unreachable(operation, status)
            }
            Code::NotFound => CriError::NotFound { operation, message },
            Code::Unimplemented => CriError::Unimplemented { operation },
            // containerd 2.2's text for a known but unimplemented method.
            Code::Unknown if message.contains("not implemented") => CriError::Unimplemented { operation },
            Code::Unavailable => self.unreachable(operation, status),
            // The texts of tonic and of Go's gRPC.
            Code::OutOfRange if message.contains("message length too large") => {
                CriError::TooLarge { operation, message }
            }
            Code::ResourceExhausted if message.contains("message larger than max") => {
                CriError::TooLarge { operation, message }
            }
            Code::DeadlineExceeded => CriError::TimedOut { operation, deadline: self.timeout },
            _ => CriError::Failed { operation, message },
        }
    }

    fn unreachable(&self, operation: Operation, status: &Status) -> CriError {
        self.streams.reset();
        let endpoint = self.socket.display().to_string();
        CriError::Unreachable { operation, endpoint, message: transport_cause(status) }
    }
}

/// The root cause of a transport error ("No such file or directory"), which tonic's own text omits.
fn transport_cause(status: &Status) -> String {
    let mut cause: &dyn std::error::Error = status;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if std::ptr::eq(cause as *const _ as *const (), status as *const _ as *const ()) {
        status.message().to_owned()
    } else {
        cause.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_lost_during_a_call_is_unreachable() {
        use super::super::super::RuntimeService;
        use tokio::io::AsyncReadExt;
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cri.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let client = CriClient::new(&socket, Duration::from_secs(60));
        let dies_under_a_call = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            connection.read_exact(&mut [0; 64]).await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.version(), dies_under_a_call);
        let error = answer.unwrap_err();
        assert!(matches!(error, CriError::Unreachable { operation: Operation::Version, .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_missing_socket_is_unreachable_and_names_the_cause() {
        use super::super::super::RuntimeService;
        let client = CriClient::new(Path::new("/nonexistent/cri.sock"), Duration::from_secs(5));
        let error = client.version().await.unwrap_err();
        assert!(matches!(error, CriError::Unreachable { operation: Operation::Version, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("/nonexistent/cri.sock") && text.contains("No such file"), "{text}");
    }
}
