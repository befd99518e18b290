//! Asking the daemon over its control socket.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use clap::{Args, ValueHint};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::exit::Exit;
use crate::api::LaneCounts;
use crate::server::{ImageView, LogsQuery, NodeView, PullsView};
use crate::types::json;

/// Longest text of an error that is read, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;

/// Where the daemon is asked.
#[derive(Clone, Debug, Args)]
pub struct DaemonArgs {
    /// Socket of the daemon
    #[arg(long, default_value = "/run/hostlet/hostlet.sock", value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
}

/// Why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no hostlet answers on {}: is it running, and is that its socket (--socket)?", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket is root's.
    #[error("{} may be opened by root only: try sudo", path.display())]
    NotAllowed {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("hostlet hung up")]
    HungUp(#[source] hyper::Error),
    /// It answered with an error and no word.
    #[error("hostlet answered {0}")]
    Status(hyper::StatusCode),
    /// It said why it does not answer as asked.
    #[error("{0}")]
    Refused(String),
    /// Its answer makes no sense: another version, perhaps.
    #[error("hostlet's answer makes no sense; are daemon and command of one version?")]
    Malformed(#[source] serde_json::Error),
    /// The request could not be made.
    #[error("making the request")]
    Request(#[source] hyper::http::Error),
    /// What is asked for cannot be put into an address.
    #[error("making the address of the request")]
    Address(#[source] serde_urlencoded::ser::Error),
}

impl ClientError {
    /// The exit code this ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NotRunning { .. } | Self::NotAllowed { .. } => Exit::Unavailable,
            Self::HungUp(_)
            | Self::Status(_)
            | Self::Refused(_)
            | Self::Malformed(_)
            | Self::Request(_)
            | Self::Address(_) => Exit::Failed,
        }
    }
}

/// The node and its pods, now.
pub(super) async fn view(socket: &Path) -> Result<NodeView, ClientError> {
    json(socket, "/v1/pods").await
}

/// What a path answers about the pod of a name that a person typed.
pub(super) async fn about_pod<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    pod: &str,
) -> Result<T, ClientError> {
    let query = serde_urlencoded::to_string([("pod", pod)]).map_err(ClientError::Address)?;
    json(socket, &format!("{path}?{query}")).await
}

/// The images the runtime has.
pub(super) async fn images(socket: &Path) -> Result<Vec<ImageView>, ClientError> {
    json(socket, "/v1/images").await
}

/// The connections to the API server.
pub(super) async fn connections(socket: &Path) -> Result<Vec<LaneCounts>, ClientError> {
    json(socket, "/v1/connections").await
}

/// The pulls under way.
pub(super) async fn pulls(socket: &Path) -> Result<PullsView, ClientError> {
    json(socket, "/v1/pulls").await
}

async fn json<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let answer = get(socket, path).await?;
    let body = answer.into_body().collect().await.map_err(ClientError::HungUp)?.to_bytes();
    json::from_slice(&body).map_err(ClientError::Malformed)
}

/// A container's log as it comes in.
pub(super) struct Log {
    body: Incoming,
}

impl Log {
    /// Asks for a log.
    pub(super) async fn start(socket: &Path, query: &LogsQuery) -> Result<Self, ClientError> {
        let query = serde_urlencoded::to_string(query).map_err(ClientError::Address)?;
        let answer = get(socket, &format!("/v1/logs?{query}")).await?;
        Ok(Self { body: answer.into_body() })
    }

    /// The next piece; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match self.body.frame().await {
            None => Ok(None),
            Some(Err(error)) => Err(ClientError::HungUp(error)),
            // Nothing but data is sent.
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        }
    }
}

/// Views of the node, one now and one after each change.
pub(super) struct Watch {
    body: Incoming,
    buffer: BytesMut,
}

impl Watch {
    /// Starts watching.
    pub(super) async fn start(socket: &Path) -> Result<Self, ClientError> {
        let answer = get(socket, "/v1/pods?watch=true").await?;
        Ok(Self { body: answer.into_body(), buffer: BytesMut::new() })
    }

    /// The next view; `None` when the daemon ended.
    pub(super) async fn next(&mut self) -> Result<Option<NodeView>, ClientError> {
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

async fn get(socket: &Path, path: &str) -> Result<Response<Incoming>, ClientError> {
    let stream = UnixStream::connect(socket).await.map_err(|source| {
        let path = socket.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => ClientError::NotAllowed { path, source },
            _ => ClientError::NotRunning { path, source },
        }
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(ClientError::HungUp)?;
    // The connection must be driven beside the request; it ends with it.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command is its own process: what it starts ends with it"
    )]
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(hyper::header::HOST, "hostlet")
        .body(Empty::<Bytes>::new())
        .map_err(ClientError::Request)?;
    let answer = sender.send_request(request).await.map_err(ClientError::HungUp)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let body = Limited::new(answer.into_body(), MAX_REFUSAL).collect().await;
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).trim().to_owned());
    Err(match text {
        Ok(text) if !text.is_empty() => ClientError::Refused(text),
        Ok(_) | Err(_) => ClientError::Status(status),
    })
}
