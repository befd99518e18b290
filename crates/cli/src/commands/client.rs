//! The client of the daemon's control socket.

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use clap::{Args, ValueHint};
use hostlet_base::json;
use hostlet_cluster::api::LaneCounts;
use hostlet_config::control_socket;
use hostlet_csi::VolumeView;
use hostlet_dra::ClaimView;
use hostlet_plugins::PluginView;
use hostlet_serve::server::{
    DevicesView, ImageView, LogsQuery, NodeReport, PodsView, PruneView, PullsView, UnusedImagesView,
    UsageView,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::exit::Exit;
use super::service_flags::service_flags;

/// Maximum length of an error text, in bytes.
const MAX_ERROR_TEXT: usize = 64 * 1024;

/// The daemon's socket.
#[derive(Clone, Debug, Args)]
pub struct DaemonArgs {
    /// Socket of the daemon [default: that of the packaged service's configuration, or /run/hostlet/hostlet.sock]
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
}

impl DaemonArgs {
    /// The socket that is named, otherwise that of the service on this host.
    pub(super) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| socket_of_service(Path::new("/")))
    }
}

/// The socket of the packaged service on the host below `root`. Flags that the daemon would reject are
/// not this command's to report: it says where it looked if nothing answers there.
fn socket_of_service(root: &Path) -> PathBuf {
    control_socket(&service_flags(root).unwrap_or_default())
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens.
    #[error("no hostlet answers on {}: is it running, and is that its socket (--socket)? hostlet doctor says what keeps it from starting", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The socket is restricted to root.
    #[error("{} can only be opened by root: try sudo", path.display())]
    NotAllowed {
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The connection was lost.
    #[error("hostlet closed the connection")]
    HungUp(#[source] hyper::Error),
    /// An error without a text.
    #[error("hostlet responded with {0}")]
    Status(hyper::StatusCode),
    /// An error with a text.
    #[error("{0}")]
    Refused(String),
    /// The response is invalid, perhaps from another version.
    #[error("hostlet's response is invalid; do daemon and command have the same version?")]
    Malformed(#[source] serde_json::Error),
    /// The request could not be built.
    #[error("cannot build the request")]
    Request(#[source] hyper::http::Error),
    /// The body cannot be encoded.
    #[error("making the body of the request")]
    Encode(#[source] serde_json::Error),
    /// The parameters cannot be encoded as a query.
    #[error("cannot encode the query of the request")]
    Address(#[source] serde_urlencoded::ser::Error),
}

impl ClientError {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NotRunning { .. } | Self::NotAllowed { .. } => Exit::Unavailable,
            Self::HungUp(_)
            | Self::Status(_)
            | Self::Refused(_)
            | Self::Malformed(_)
            | Self::Request(_)
            | Self::Encode(_)
            | Self::Address(_) => Exit::Failed,
        }
    }
}

/// The current node and pods.
pub(super) async fn view(socket: &Path) -> Result<PodsView, ClientError> {
    json(socket, "/v1/pods").await
}

/// Gets a path for the pod name that a user typed.
pub(super) async fn about_pod<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    pod: &str,
) -> Result<T, ClientError> {
    let query = serde_urlencoded::to_string([("pod", pod)]).map_err(ClientError::Address)?;
    json(socket, &format!("{path}?{query}")).await
}

/// The runtime's images.
pub(super) async fn images(socket: &Path) -> Result<Vec<ImageView>, ClientError> {
    json(socket, "/v1/images").await
}

/// The images that nothing uses.
pub(super) async fn unused_images(socket: &Path) -> Result<UnusedImagesView, ClientError> {
    json(socket, "/v1/images/unused").await
}

/// Has the images that nothing uses removed.
pub(super) async fn prune_images(socket: &Path) -> Result<PruneView, ClientError> {
    post(socket, "/v1/images/prune", &(), &()).await
}

/// The plugins of this host.
pub(super) async fn plugins(socket: &Path) -> Result<Vec<PluginView>, ClientError> {
    json(socket, "/v1/plugins").await
}

/// The volumes of CSI drivers on this node.
pub(super) async fn volumes(socket: &Path) -> Result<Vec<VolumeView>, ClientError> {
    json(socket, "/v1/volumes").await
}

/// The ResourceClaims of this node's pods.
pub(super) async fn claims(socket: &Path) -> Result<Vec<ClaimView>, ClientError> {
    json(socket, "/v1/claims").await
}

/// The devices of device plugins on this node.
pub(super) async fn devices(socket: &Path) -> Result<DevicesView, ClientError> {
    json(socket, "/v1/devices").await
}

/// The connections to the API server.
pub(super) async fn connections(socket: &Path) -> Result<Vec<LaneCounts>, ClientError> {
    json(socket, "/v1/connections").await
}

pub(super) async fn node(socket: &Path) -> Result<NodeReport, ClientError> {
    json(socket, "/v1/node").await
}

/// What the node and its pods use.
pub(super) async fn usage(socket: &Path) -> Result<UsageView, ClientError> {
    json(socket, "/v1/usage").await
}

/// The pulls in progress.
pub(super) async fn pulls(socket: &Path) -> Result<PullsView, ClientError> {
    json(socket, "/v1/pulls").await
}

async fn json<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let response = get(socket, path).await?;
    let body = response.into_body().collect().await.map_err(ClientError::HungUp)?.to_bytes();
    json::from_slice(&body).map_err(ClientError::Malformed)
}

/// A streamed container log.
pub(super) struct Log {
    body: Incoming,
}

impl Log {
    /// Requests a log.
    pub(super) async fn start(socket: &Path, query: &LogsQuery) -> Result<Self, ClientError> {
        let query = serde_urlencoded::to_string(query).map_err(ClientError::Address)?;
        let response = get(socket, &format!("/v1/logs?{query}")).await?;
        Ok(Self { body: response.into_body() })
    }

    /// The next chunk; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match self.body.frame().await {
            None => Ok(None),
            Some(Err(error)) => Err(ClientError::HungUp(error)),
            // Skips trailers.
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        }
    }
}

/// A response of JSON objects, one per line, which ends with the daemon at the latest.
pub(super) struct Lines<T> {
    body: Incoming,
    buffer: BytesMut,
    of: PhantomData<T>,
}

/// A watch of the node: a view now and after each change.
pub(super) type Watch = Lines<PodsView>;

impl Watch {
    /// Starts the watch of the node.
    pub(super) async fn of_node(socket: &Path) -> Result<Self, ClientError> {
        Self::start(socket, "/v1/pods", &[("watch", "true")]).await
    }
}

impl<T: DeserializeOwned> Lines<T> {
    /// Sends the request.
    pub(super) async fn start(
        socket: &Path,
        path: &str,
        query: &impl Serialize,
    ) -> Result<Self, ClientError> {
        let query = serde_urlencoded::to_string(query).map_err(ClientError::Address)?;
        let answer = get(socket, &format!("{path}?{query}")).await?;
        Ok(Self { body: answer.into_body(), buffer: BytesMut::new(), of: PhantomData })
    }

    /// The next object; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<T>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return json::from_slice(&line).map(Some).map_err(ClientError::Malformed);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::HungUp(error)),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }
}

/// Posts a JSON body and returns the response.
pub(super) async fn post<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    query: &impl Serialize,
    body: &impl Serialize,
) -> Result<T, ClientError> {
    let query = serde_urlencoded::to_string(query).map_err(ClientError::Address)?;
    let body = serde_json::to_vec(body).map_err(ClientError::Encode)?;
    let request = Request::post(format!("{path}?{query}")).header(CONTENT_TYPE, "application/json");
    let answer = send(socket, request, body.into()).await?;
    let body = answer.into_body().collect().await.map_err(ClientError::HungUp)?.to_bytes();
    json::from_slice(&body).map_err(ClientError::Malformed)
}

async fn get(socket: &Path, path: &str) -> Result<Response<Incoming>, ClientError> {
    send(socket, Request::get(path), Bytes::new()).await
}

async fn send(socket: &Path, request: Builder, body: Bytes) -> Result<Response<Incoming>, ClientError> {
    let stream = UnixStream::connect(socket).await.map_err(|source| {
        let path = socket.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => ClientError::NotAllowed { path, source },
            _ => ClientError::NotRunning { path, source },
        }
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(ClientError::HungUp)?;
    // Drives the connection concurrently with the request.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command is a separate process, and its tasks end with it"
    )]
    tokio::spawn(connection);
    let request = request.header(HOST, "hostlet").body(Full::new(body)).map_err(ClientError::Request)?;
    let response = sender.send_request(request).await.map_err(ClientError::HungUp)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), MAX_ERROR_TEXT).collect().await;
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).trim().to_owned());
    Err(match text {
        Ok(text) if !text.is_empty() => ClientError::Refused(text),
        Ok(_) | Err(_) => ClientError::Status(status),
    })
}
