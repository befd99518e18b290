//! Asking the daemon over its control socket.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::exit::Exit;
use crate::server::NodeView;

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
    /// It answered with an error.
    #[error("hostlet answered {0}")]
    Status(hyper::StatusCode),
    /// Its answer makes no sense: another version, perhaps.
    #[error("hostlet's answer makes no sense; are daemon and command of one version?")]
    Malformed(#[source] serde_json::Error),
    /// The request could not be made.
    #[error("making the request")]
    Request(#[source] hyper::http::Error),
}

impl ClientError {
    /// The exit code this ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NotRunning { .. } | Self::NotAllowed { .. } => Exit::Unavailable,
            Self::HungUp(_) | Self::Status(_) | Self::Malformed(_) | Self::Request(_) => Exit::Failed,
        }
    }
}

/// The node and its pods, now.
pub(super) async fn view(socket: &Path) -> Result<NodeView, ClientError> {
    fetch(socket, "/v1/pods").await
}

/// What a path answers about the pod of a name that a person typed.
pub(super) async fn about_pod<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    pod: &str,
) -> Result<T, ClientError> {
    fetch(socket, &format!("{path}?pod={}", url_encoded(pod))).await
}

/// A value for the query of a URL (RFC 3986, section 2).
fn url_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

async fn fetch<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let answer = get(socket, path).await?;
    let body = answer.into_body().collect().await.map_err(ClientError::HungUp)?.to_bytes();
    serde_json::from_slice(&body).map_err(ClientError::Malformed)
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
                return serde_json::from_slice(&line).map(Some).map_err(ClientError::Malformed);
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
    if answer.status().is_success() { Ok(answer) } else { Err(ClientError::Status(answer.status())) }
}
