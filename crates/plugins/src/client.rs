//! The calls of a registration: one connection per attempt, each call with its deadline. Decides nothing and never retries.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use std::os::unix::fs::FileTypeExt;

use async_trait::async_trait;
use hostlet_base::one_line;
use hostlet_host::file_work;
use hostlet_proto::registration::{
    GET_INFO, InfoRequest, NOTIFY_REGISTRATION_STATUS, PluginInfo, RegistrationStatus,
    RegistrationStatusResponse,
};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::dial::{connect_keeping, root_cause};
use super::info::{InfoError, PluginClaim, check};
use super::scan::{OpenError, SocketIdentity, open_socket};

/// Deadline of connecting and of `GetInfo` together. Upstream's are 10 s for the former and 1 s for the latter, which a plugin that
/// starts on a busy host misses.
const ASK_DEADLINE: Duration = Duration::from_secs(10);

/// Deadline of `NotifyRegistrationStatus`, as upstream.
const NOTIFY_DEADLINE: Duration = Duration::from_secs(5);

/// Maximum size of a message. The largest acceptable answer has half of it.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Maximum bytes of a plugin's own error text.
const MAX_TEXT: usize = 300;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing accepts the connection.
    #[error("nothing answers at the socket ({0}); a plugin that has ended should remove it")]
    Connect(String),
    #[error("{call} was not answered within {} s", limit.as_secs())]
    TimedOut { call: &'static str, limit: Duration },
    #[error(
        "the plugin does not serve pluginregistration.Registration/{call}: register that service on this socket"
    )]
    Unimplemented { call: &'static str },
    /// The plugin answered with an error, or with something else than gRPC.
    #[error("{call} failed: {code:?}: {message}")]
    Failed {
        call: &'static str,
        code: Code,
        /// One line of at most [`MAX_TEXT`] bytes.
        message: String,
    },
    #[error("checking the endpoint ended early")]
    Check(#[source] tokio::task::JoinError),
}

impl CallError {
    /// Whether the plugin may just not have started to listen yet.
    pub(super) fn may_be_early(&self) -> bool {
        match self {
            Self::Open(_) | Self::Connect(_) | Self::Check(_) => true,
            Self::TimedOut { .. } | Self::Unimplemented { .. } | Self::Failed { .. } => false,
        }
    }
}

/// What a plugin says about itself.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) claim: Result<PluginClaim, InfoError>,
    /// Whether its endpoint is a socket.
    pub(super) endpoint: Result<(), InfoError>,
}

/// What a plugin answered to `GetInfo`.
pub(super) struct Answer {
    pub(super) statement: Statement,
    /// The connection, to report the outcome.
    pub(super) conversation: Box<dyn Conversation>,
}

/// A connection to a plugin after `GetInfo`.
#[async_trait]
pub(super) trait Conversation: Send {
    /// Reports the outcome of the registration.
    async fn notify(self: Box<Self>, status: RegistrationStatus) -> Result<(), CallError>;
}

#[async_trait]
pub(super) trait Registrar: Send + Sync {
    /// Connects to a socket, and asks what the plugin is.
    async fn ask(&self, socket: &Path, identity: SocketIdentity) -> Result<Answer, CallError>;
}

/// Calls the plugins of a registry over gRPC.
pub(super) struct GrpcRegistrar {
    /// The directory of all registration sockets.
    pub(super) registry: PathBuf,
    pub(super) proc: PathBuf,
}

#[async_trait]
impl Registrar for GrpcRegistrar {
    async fn ask(&self, socket: &Path, identity: SocketIdentity) -> Result<Answer, CallError> {
        let answer = timeout(ASK_DEADLINE, self.ask_without_deadline(socket, identity)).await;
        answer.unwrap_or(Err(CallError::TimedOut { call: "GetInfo", limit: ASK_DEADLINE }))
    }
}

impl GrpcRegistrar {
    async fn ask_without_deadline(
        &self,
        socket: &Path,
        identity: SocketIdentity,
    ) -> Result<Answer, CallError> {
        let channel = self.connect(socket, identity).await?;
        let info: PluginInfo = call(&channel, "GetInfo", GET_INFO, InfoRequest {}).await?;
        let claim = check(info, socket);
        let endpoint = match claim.as_ref().map(|claim| claim.endpoint.clone()) {
            Ok(endpoint) => file_work(move || is_socket(&endpoint)).await.map_err(CallError::Check)?,
            Err(_) => Ok(()),
        };
        let statement = Statement { claim, endpoint };
        Ok(Answer { statement, conversation: Box::new(GrpcConversation { channel }) })
    }

    async fn connect(&self, socket: &Path, identity: SocketIdentity) -> Result<Channel, CallError> {
        let (registry, path) = (self.registry.clone(), socket.to_owned());
        let opened = file_work(move || open_socket(&registry, &path, identity)).await;
        let opened = Arc::new(opened.map_err(CallError::Check)??);
        // The opened socket by its descriptor: a path could lead elsewhere by now, or be longer than a socket's address.
        let by_descriptor = self.proc.join(format!("self/fd/{}", opened.as_raw_fd()));
        let connected = connect_keeping(by_descriptor, opened).await;
        connected.map_err(|error| CallError::Connect(root_cause(&error, MAX_TEXT)))
    }
}

struct GrpcConversation {
    channel: Channel,
}

#[async_trait]
impl Conversation for GrpcConversation {
    async fn notify(self: Box<Self>, status: RegistrationStatus) -> Result<(), CallError> {
        const CALL: &str = "NotifyRegistrationStatus";
        let response =
            call::<_, RegistrationStatusResponse>(&self.channel, CALL, NOTIFY_REGISTRATION_STATUS, status);
        let response = timeout(NOTIFY_DEADLINE, response).await;
        response.unwrap_or(Err(CallError::TimedOut { call: CALL, limit: NOTIFY_DEADLINE })).map(drop)
    }
}

async fn call<Q, A>(
    channel: &Channel,
    call: &'static str,
    method: &'static str,
    request: Q,
) -> Result<A, CallError>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let failed = |status: Status| match status.code() {
        Code::Unimplemented => CallError::Unimplemented { call },
        // Only local errors have a source.
        code if std::error::Error::source(&status).is_some() => {
            CallError::Failed { call, code, message: root_cause(&status, MAX_TEXT) }
        }
        code => CallError::Failed { call, code, message: one_line(status.message(), MAX_TEXT) },
    };
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    grpc.ready().await.map_err(|error| CallError::Connect(root_cause(&error, MAX_TEXT)))?;
    let (codec, path) = (ProstCodec::<Q, A>::default(), PathAndQuery::from_static(method));
    let answer = grpc.unary(Request::new(request), path, codec).await;
    answer.map(tonic::Response::into_inner).map_err(failed)
}

/// Whether there is a socket at an endpoint.
fn is_socket(endpoint: &Path) -> Result<(), InfoError> {
    match fs::metadata(endpoint) {
        Ok(metadata) if metadata.file_type().is_socket() => Ok(()),
        Ok(_) => Err(InfoError::NotASocket(endpoint.to_owned())),
        Err(error) => Err(InfoError::NoEndpoint { endpoint: endpoint.to_owned(), why: error.to_string() }),
    }
}
