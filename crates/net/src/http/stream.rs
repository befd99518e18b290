//! Connections, with and without TLS. Each remembers the beginning of what it received, for the texts of errors.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::dial::{ConnectError, errno_text};

/// What is remembered, in bytes.
const REMEMBERED: usize = 160;

/// A connection that remembers.
pub struct Watched<T> {
    inner: T,
    head: Vec<u8>,
    /// The number of the system's error that reading ended with.
    error: Option<i32>,
    /// The other end, which the system forgets with the connection.
    peer: Option<SocketAddr>,
}

impl<T> Watched<T> {
    fn new(inner: T, peer: Option<SocketAddr>) -> Self {
        Self { inner, head: Vec::new(), error: None, peer }
    }

    /// Go's text of the system's error that reading from `tcp`, which is in here, ended with.
    fn error_of(&self, tcp: &TcpStream) -> Option<String> {
        let text = errno_text(self.error?);
        Some(match (tcp.local_addr(), self.peer) {
            (Ok(own), Some(peer)) => format!("read tcp {own}->{peer}: read: {text}"),
            (_, _) => format!("read tcp: read: {text}"),
        })
    }

    /// The beginning of what was received.
    pub fn head(&self) -> &[u8] {
        &self.head
    }
}

/// A connection to a server.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<Watched<TcpStream>>>),
}

impl Watched<Stream> {
    /// Speaks to the server without TLS.
    pub fn plain(tcp: TcpStream) -> Self {
        let peer = tcp.peer_addr().ok();
        Self::new(Stream::Plain(tcp), peer)
    }

    /// Negotiates TLS with a server that is known as `host`.
    pub async fn tls(tcp: TcpStream, host: &str, config: Arc<ClientConfig>) -> Result<Self, ConnectError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| ConnectError::ServerName(error.to_string()))?;
        // A handshake has several round trips, which would wait for each other's acknowledgement.
        let _ = tcp.set_nodelay(true);
        let peer = tcp.peer_addr().ok();
        let connecting = TlsConnector::from(config).connect(name, Watched::new(tcp, peer)).into_fallible();
        let (error, tcp) = match connecting.await {
            Ok(stream) => return Ok(Self::new(Stream::Tls(Box::new(stream)), peer)),
            Err(failed) => failed,
        };
        if tcp.head.starts_with(b"HTTP/") {
            return Err(ConnectError::NoTls);
        }
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Err(ConnectError::Closed);
        }
        let broken = tcp.error_of(&tcp.inner).map(ConnectError::Broken);
        Err(broken.unwrap_or_else(|| ConnectError::Handshake(error.to_string())))
    }

    /// Whether the TLS handshake chose HTTP/2.
    pub fn is_http2(&self) -> bool {
        match &self.inner {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    /// Go's text of the system's error that reading ended with.
    pub(crate) fn read_error(&self) -> Option<String> {
        match &self.inner {
            Stream::Plain(tcp) => self.error_of(tcp),
            Stream::Tls(stream) => {
                let watched = stream.get_ref().0;
                watched.error_of(&watched.inner)
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        match &polled {
            Poll::Ready(Ok(())) if self.head.len() < REMEMBERED => {
                let new = buf.filled().get(before..).unwrap_or_default();
                let room = REMEMBERED - self.head.len();
                self.head.extend_from_slice(new.get(..room).unwrap_or(new));
            }
            Poll::Ready(Err(error)) => self.error = error.raw_os_error(),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
