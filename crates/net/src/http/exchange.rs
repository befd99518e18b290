//! One request and its response on a connection that serves nothing else. The connection's work is done while the response is awaited, so
//! nothing outlives it.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::Fuse;
use hostlet_base::{error_chain, go_quoted};
use http::header::LOCATION;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use super::stream::{Stream, Watched};

/// The body that is read, in bytes.
pub(super) const MAX_BODY: usize = 10 << 10;
/// The largest head of a response, in bytes.
const MAX_HEAD: usize = 256 << 10;

/// A request.
pub(super) struct Outgoing {
    /// Path and query for HTTP/1.1, the whole address for HTTP/2.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
}

/// A response.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    /// Empty if the caller did not ask for it.
    pub(super) body: Vec<u8>,
}

/// Why there is no response. The text is Go's where it has one for the case.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Before its head was complete.
    Head(String),
    /// The server was to speak TLS, but speaks HTTP.
    NoTls,
    /// It took too long until its head was complete.
    HeadTimedOut,
    /// While its body was read.
    Body(String),
    /// The body took too long.
    BodyTimedOut,
}

/// Awaits `work` while `connection` does its part.
pub async fn alongside<C: Future, W: Future>(mut connection: Pin<&mut Fuse<C>>, work: W) -> W::Output {
    let mut work = pin!(work);
    poll_fn(|cx| {
        // Its own end shows in the work.
        let _ = connection.as_mut().poll(cx);
        work.as_mut().poll(cx)
    })
    .await
}

/// Over HTTP/1.1. `wants_body` decides by status and `Location`.
pub(super) async fn http1(
    stream: &mut Watched<Stream>,
    outgoing: Outgoing,
    deadline: Instant,
    wants_body: impl FnOnce(u16, Option<&str>) -> bool,
) -> Result<Received, Broken> {
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = outgoing.target.parse().map_err(|error| Broken::Head(format!("{error}")))?;
    *request.headers_mut() = outgoing.headers;
    let exchanged = async {
        let mut builder = http1::Builder::new();
        let builder = builder.title_case_headers(true).max_buf_size(MAX_HEAD);
        let opened = builder.handshake(TokioIo::new(&mut *stream)).await;
        let (mut sender, connection) = opened.map_err(Failed::Head)?;
        let mut connection = pin!(connection.fuse());
        let head = alongside(connection.as_mut(), timeout_at(deadline, sender.send_request(request))).await;
        let response = head.map_err(|_| Failed::Other(Broken::HeadTimedOut))?.map_err(Failed::Head)?;
        let (mut received, body) = split(response);
        if wants_body(received.status, received.location.as_deref()) {
            let read = alongside(connection.as_mut(), timeout_at(deadline, read_body(body))).await;
            let read = read.map_err(|_| Failed::Other(Broken::BodyTimedOut))?;
            received.body = read.map_err(Failed::Body)?;
        }
        Ok(received)
    };
    exchanged.await.map_err(|failed| match failed {
        Failed::Head(error) => Broken::Head(head_error(&error, stream)),
        Failed::Body(error) => {
            let other = || if is_end(&error) { "unexpected EOF".to_owned() } else { error_chain(&error) };
            Broken::Body(stream.read_error().unwrap_or_else(other))
        }
        Failed::Other(broken) => broken,
    })
}

enum Failed {
    Head(hyper::Error),
    Body(hyper::Error),
    Other(Broken),
}

fn split<B>(response: Response<B>) -> (Received, B) {
    let (head, body) = response.into_parts();
    let location =
        head.headers.get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    (Received { status: head.status.as_u16(), location, body: Vec::new() }, body)
}

async fn read_body(mut body: Incoming) -> Result<Vec<u8>, hyper::Error> {
    let mut read = Vec::new();
    while read.len() < MAX_BODY
        && let Some(frame) = body.frame().await
    {
        let frame = frame?;
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(data.get(..MAX_BODY - read.len()).unwrap_or(data));
        }
    }
    Ok(read)
}

fn head_error(error: &hyper::Error, stream: &Watched<Stream>) -> String {
    if let Some(text) = stream.read_error() {
        return text;
    }
    if error.is_parse_too_large() {
        return format!("net/http: server response headers exceeded {MAX_HEAD} bytes; aborted");
    }
    let head = String::from_utf8_lossy(stream.head());
    if head.is_empty() {
        return "EOF".to_owned();
    }
    if error.is_parse() {
        let line = head.lines().next().unwrap_or_default();
        let is_http = line.starts_with("HTTP/");
        let what = if is_http { "malformed HTTP header in the response" } else { "malformed HTTP response" };
        return format!("net/http: HTTP/1.x transport connection broken: {what} {}", go_quoted(line));
    }
    if error.is_incomplete_message() {
        return "net/http: HTTP/1.x transport connection broken: unexpected EOF".to_owned();
    }
    error_chain(error)
}

/// Whether the connection ended too early.
fn is_end(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    error.is_incomplete_message()
        || source.is_some_and(|source| source.kind() == io::ErrorKind::UnexpectedEof)
}

/// Over HTTP/2.
pub(super) async fn http2(
    stream: &mut Watched<Stream>,
    outgoing: Outgoing,
    deadline: Instant,
    wants_body: impl FnOnce(u16, Option<&str>) -> bool,
) -> Result<Received, Broken> {
    let mut request = Request::new(());
    *request.uri_mut() = outgoing.target.parse().map_err(|error| Broken::Head(format!("{error}")))?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = outgoing.headers;
    let exchanged = async {
        let mut builder = h2::client::Builder::new();
        let builder = builder.enable_push(false).max_header_list_size(MAX_HEAD as u32);
        let (sender, connection) = builder.handshake::<_, Bytes>(&mut *stream).await.map_err(head2)?;
        let mut connection = pin!(connection.fuse());
        let head = async {
            let (response, _) = sender.ready().await?.send_request(request, true)?;
            response.await
        };
        let head = alongside(connection.as_mut(), timeout_at(deadline, head)).await;
        let response = head.map_err(|_| Broken::HeadTimedOut)?.map_err(head2)?;
        let (mut received, mut body) = split(response);
        if wants_body(received.status, received.location.as_deref()) {
            let read =
                alongside(connection.as_mut(), timeout_at(deadline, read_stream(&mut body, MAX_BODY))).await;
            let read = read.map_err(|_| Broken::BodyTimedOut)?;
            received.body = read.map_err(|error| Broken::Body(error.to_string()))?;
        }
        Ok(received)
    };
    let result: Result<Received, Broken> = exchanged.await;
    result.map_err(|broken| match (broken, stream.read_error()) {
        (Broken::Head(_), Some(text)) => Broken::Head(text),
        (Broken::Head(_), None) if stream.head().is_empty() => Broken::Head("EOF".to_owned()),
        (broken, _) => broken,
    })
}

fn head2(error: h2::Error) -> Broken {
    Broken::Head(format!("http2: {error}"))
}

/// At most `limit` bytes of a body.
pub async fn read_stream(body: &mut h2::RecvStream, limit: usize) -> Result<Vec<u8>, h2::Error> {
    let mut read = Vec::new();
    while read.len() < limit
        && let Some(data) = body.data().await
    {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        read.extend_from_slice(data.get(..limit - read.len()).unwrap_or(&data));
    }
    Ok(read)
}
