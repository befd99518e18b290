//! The upgrade of a connection to the runtime's streaming server.

use std::io::Cursor;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join;
use hostlet_base::join_host_port;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, Chain, Join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{StreamUrl, StreamingError};

/// The protocol of clients that are no WebSockets, in the header `Upgrade`.
pub const SPDY: &str = "SPDY/3.1";

/// The header with the protocols of a session: those that the client speaks, the one that the server chose.
pub const PROTOCOL_VERSION: &str = "x-stream-protocol-version";

/// How long the server, on this host, may take to answer: as long as it gives a client for opening the streams.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Limit for a rejection's text, in bytes.
const MOST_REFUSAL: usize = 64 << 10;

/// A connection whose server has agreed to another protocol. What came with its answer is read first.
pub type StreamIo = Join<Chain<Cursor<Bytes>, OwnedReadHalf>, OwnedWriteHalf>;

/// The server's answer.
#[derive(Debug)]
pub enum Answer {
    /// It has agreed.
    Switched {
        /// Headers of the 101 response, among them the protocol that the server chose.
        headers: HeaderMap,
        /// The connection.
        io: Box<StreamIo>,
    },
    /// It has not.
    Rejected(Response<Bytes>),
}

/// Connects to a URL of the runtime, and asks for the protocol in `headers`.
///
/// # Errors
/// The server cannot be reached, or gave no answer within 30 s.
pub async fn upgrade(url: &StreamUrl, method: Method, headers: HeaderMap) -> Result<Answer, StreamingError> {
    tokio::time::timeout(PATIENCE, ask(url, method, headers))
        .await
        .unwrap_or(Err(StreamingError::Late(PATIENCE)))
}

async fn ask(url: &StreamUrl, method: Method, headers: HeaderMap) -> Result<Answer, StreamingError> {
    let mut request = Request::builder()
        .method(method)
        .uri(&url.target)
        .header(HOST, join_host_port(&url.host, url.port))
        .header(CONNECTION, "Upgrade")
        .body(Empty::<Bytes>::new())
        .map_err(StreamingError::Request)?;
    request.headers_mut().extend(headers);
    // Runtimes return the address that they listen on (Kubernetes' streaming library), so that no name is looked up.
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(StreamingError::Connect)?;
    // Key strokes are small and must not wait for each other.
    stream.set_nodelay(true).map_err(StreamingError::Connect)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(StreamingError::Send)?;
    let answered = async move {
        let response = sender.send_request(request).await.map_err(StreamingError::Send)?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok((head, Bytes::new()));
        }
        // The connection ends with `sender`, which is dropped with this future.
        let text = Limited::new(body, MOST_REFUSAL).collect().await;
        Ok((head, text.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
    };
    let (answer, ended) = join(answered, connection.without_shutdown()).await;
    let (head, text) = answer?;
    if head.status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Answer::Rejected(Response::from_parts(head, text)));
    }
    let parts = ended.map_err(StreamingError::Send)?;
    let (reader, writer) = parts.io.into_inner().into_split();
    let io = Box::new(tokio::io::join(Cursor::new(parts.read_buf).chain(reader), writer));
    Ok(Answer::Switched { headers: head.headers, io })
}

/// The headers that ask for SPDY and one of these protocols.
pub(super) fn spdy_headers(protocol: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(UPGRADE, http::HeaderValue::from_static(SPDY));
    headers.insert(PROTOCOL_VERSION, http::HeaderValue::from_static(protocol));
    headers
}
