//! A connection from a program of this host. Decides nothing: what it changes is [`AuthorityRewriter`]'s.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

use super::authority::AuthorityRewriter;

/// How much is read at once.
const PIECE: usize = 4 << 10;

/// A connection.
pub struct AgentStream {
    inner: UnixStream,
    rewriter: AuthorityRewriter,
    /// What was received and not passed on.
    pending: Vec<u8>,
    /// How much of it may be passed on.
    ready: usize,
}

impl AgentStream {
    pub(super) fn new(inner: UnixStream) -> Self {
        Self { inner, rewriter: AuthorityRewriter::default(), pending: Vec::new(), ready: 0 }
    }
}

impl AsyncRead for AgentStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.ready == 0 {
            let mut piece = [0; PIECE];
            let mut received = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut received))?;
            if received.filled().is_empty() {
                // The beginning of a frame that does not come.
                this.ready = this.pending.len();
                break;
            }
            this.pending.extend_from_slice(received.filled());
            this.ready = this.rewriter.rewrite(&mut this.pending);
        }
        let passed = this.ready.min(buf.remaining());
        buf.put_slice(&this.pending[..passed]);
        this.pending.drain(..passed);
        this.ready -= passed;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AgentStream {
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

impl Connected for AgentStream {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.inner.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};
    use tokio::task::JoinSet;
    use tonic::service::Routes;
    use tonic::transport::Server;

    use crate::accept::incoming;

    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;

    /// The type of the first frame that a server answers to a request with this authority.
    async fn answer(authority: &str) -> u8 {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("a.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = Server::builder().add_routes(Routes::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve_with_incoming(incoming(listener)));
        let mut client = UnixStream::connect(&socket).await.unwrap();
        let length = u8::try_from(authority.len()).unwrap();
        // `:method: POST`, `:scheme: http`, `:path: /a`, `:authority`, `content-type`.
        let headers = [
            &[0x83, 0x86, 0x44, 2, b'/', b'a', 0x41, length],
            authority.as_bytes(),
            &[0x5f, 16],
            b"application/grpc",
        ]
        .concat();
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let request = [0, 0, u8::try_from(headers.len()).unwrap(), HEADERS, 5, 0, 0, 0, 1];
        let sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &request, &headers].concat();
        client.write_all(&sent).await.unwrap();
        loop {
            let mut header = [0; 9];
            client.read_exact(&mut header).await.unwrap();
            let mut payload = vec![0; usize::from(header[1]) << 8 | usize::from(header[2])];
            client.read_exact(&mut payload).await.unwrap();
            if header[8] == 1 && [HEADERS, RST_STREAM].contains(&header[3]) {
                return header[3];
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_names_the_socket_in_its_requests_is_answered() {
        for authority in ["localhost", "/run/a.sock", "%2Frun%2Fa.sock"] {
            assert_eq!(answer(authority).await, HEADERS, "{authority}");
        }
    }
}
