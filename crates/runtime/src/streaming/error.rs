//! Errors of sessions.

use std::io;
use std::time::Duration;

use crate::spdy::SpdyError;

/// Why a runtime's URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamUrlError {
    /// It is no URL with a host.
    #[error(
        "the container runtime returned {0:?} as the URL of its streaming server, which must begin with http:// and name a host"
    )]
    Malformed(String),
    /// It is not plain HTTP.
    #[error(
        "the container runtime's streaming server uses TLS, which hostlet does not support: turn it off (containerd: enable_tls_streaming = false)"
    )]
    Tls,
}

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamingError {
    /// Nobody listens at the URL.
    #[error("error dialing backend")]
    Connect(#[source] io::Error),
    /// The request could not be built.
    #[error("cannot build the request for the container runtime's streaming server")]
    Request(#[source] http::Error),
    /// The connection failed before an answer.
    #[error("error sending request to the container runtime's streaming server")]
    Send(#[source] hyper::Error),
    /// No answer came in time.
    #[error("the container runtime's streaming server has not answered within {}s", .0.as_secs())]
    Late(Duration),
    /// The answer is no upgrade; this is its text. The wording is the stock kubelet's.
    #[error("unable to upgrade connection: {0}")]
    Rejected(String),
    /// A stream could not be opened.
    #[error("cannot open a stream at the container runtime's streaming server")]
    Open(#[source] SpdyError),
    /// The connection failed.
    #[error("the connection to the container runtime's streaming server failed")]
    Broken(#[source] SpdyError),
    /// The connection ended before the process did.
    #[error("the container runtime closed the connection before it reported how the command ended")]
    Lost,
}
