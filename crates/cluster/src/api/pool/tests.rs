//! The pool with in-memory HTTP/2 servers and paused time.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream;
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceExt};

use super::*;

/// A server with a stream limit that responds to requests at once and never finishes watches.
#[derive(Clone)]
struct Server {
    streams: u32,
    speaks_http2: Arc<AtomicBool>,
    is_away: bool,
    /// Number of dials.
    dialed: Arc<AtomicUsize>,
    /// Maximum number of open streams on a connection.
    busiest: Arc<AtomicUsize>,
    /// A later stream limit for all open connections.
    permitted: watch::Sender<u32>,
    /// Connections made before this number increased are silent.
    silence: watch::Sender<usize>,
    /// Connections made before this number increased are closed gracefully, as idle ones.
    farewell: watch::Sender<usize>,
}

impl Server {
    fn new(streams: u32) -> Self {
        Self {
            streams,
            speaks_http2: Arc::new(AtomicBool::new(true)),
            is_away: false,
            dialed: Arc::default(),
            busiest: Arc::default(),
            permitted: watch::Sender::new(0),
            silence: watch::Sender::new(0),
            farewell: watch::Sender::new(0),
        }
    }

    fn dialed(&self) -> usize {
        self.dialed.load(Ordering::Relaxed)
    }

    /// Makes all open connections silent.
    fn fall_silent(&self) {
        self.silence.send_modify(|times| *times += 1);
    }

    fn pool(&self) -> (Pool<Self>, Connections) {
        let connections = Connections::default();
        let http1 = HttpClient::builder(TokioExecutor::new()).build(self.clone());
        (Pool::new(self.clone(), http1, Purpose::Pods, &connections), connections)
    }
}

async fn serve(server: Server, far: DuplexStream) {
    let mut silence = server.silence.subscribe();
    let silenced = *silence.borrow();
    let mut farewell = server.farewell.subscribe();
    let said = *farewell.borrow();
    let open = Arc::new(AtomicUsize::new(0));
    let busiest = server.busiest.clone();
    let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (open, busiest) = (open.clone(), busiest.clone());
        async move {
            let is_watch = request.uri().query() == Some("watch=true");
            let body: BoxBody<Bytes, Infallible> = if is_watch {
                busiest.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed()
            } else {
                Full::new(Bytes::from("done")).boxed()
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    let io = TokioIo::new(far);
    let served = async {
        if server.speaks_http2.load(Ordering::Relaxed) {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let connection = builder.max_concurrent_streams(server.streams).serve_connection(io, answer);
            let mut connection = pin!(connection);
            tokio::select! {
                // Cancel-safe: the connection is kept.
                _ = &mut connection => return,
                // Cancel-safe: only reads a watch.
                _ = farewell.wait_for(|times| *times > said) => {}
            }
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        } else {
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, answer).await;
        }
    };
    let mut served = pin!(served);
    let silent = async { silence.wait_for(|times| *times > silenced).await.is_ok() };
    tokio::select! {
        // Cancel-safe: the connection is kept.
        () = &mut served => return,
        // Cancel-safe: only reads a watch.
        _ = silent => {}
    }
    std::future::pending().await
}

/// Relays a connection and injects SETTINGS with a new stream limit, which hyper's server cannot change. Swallows the client's
/// acknowledgement, which the server does not expect.
async fn relay(client: DuplexStream, server: DuplexStream, mut permitted: watch::Receiver<u32>) {
    const CONFIRMED: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (tokio::io::split(client), tokio::io::split(server));
    let (mut asked, mut answered) = ([0; 1 << 14], [0; 1 << 14]);
    let mut is_said = false;
    loop {
        tokio::select! {
            // Cancel-safe: an incomplete read has read nothing.
            Ok(length @ 1..) = from_client.read(&mut asked) => {
                let is_for_server = !is_said || asked[..length] != CONFIRMED;
                if is_for_server && to_server.write_all(&asked[..length]).await.is_err() {
                    // The server has closed the connection.
                    return;
                }
            }
            Ok(length @ 1..) = from_server.read(&mut answered) => {
                to_client.write_all(&answered[..length]).await.unwrap();
            }
            // Cancel-safe: a watch marks its value seen only when `changed` returns.
            Ok(()) = permitted.changed() => {
                is_said = true;
                // Between two frames, because nothing else is in flight.
                let mut frame = vec![0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3];
                frame.extend(permitted.borrow_and_update().to_be_bytes());
                to_client.write_all(&frame).await.unwrap();
            }
            else => return,
        }
    }
}

/// The client's end of a connection with negotiated ALPN.
struct Near {
    io: TokioIo<DuplexStream>,
    is_http2: bool,
}

impl Connection for Near {
    fn connected(&self) -> Connected {
        if self.is_http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Near {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Near {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl Service<Uri> for Server {
    type Response = Near;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Near>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let server = self.clone();
        async move {
            server.dialed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            if server.is_away {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let (near, far) = tokio::io::duplex(1 << 16);
            let is_http2 = server.speaks_http2.load(Ordering::Relaxed);
            let (inner, outer) = tokio::io::duplex(1 << 16);
            let permitted = server.permitted.subscribe();
            #[expect(clippy::disallowed_methods, reason = "tasks of a test")]
            for task in [relay(far, inner, permitted).boxed(), serve(server, outer).boxed()] {
                tokio::spawn(task);
            }
            Ok(Near { io: TokioIo::new(near), is_http2 })
        }
        .boxed()
    }
}

type Answer = Result<Response<super::slot::ResponseBody>, tower::BoxError>;

async fn ask(pool: &Pool<Server>, path: &str) -> Answer {
    let request = Request::get(format!("https://server{path}")).body(Body::empty()).unwrap();
    pool.clone().oneshot(request).await
}

async fn is_done(answer: Answer) -> bool {
    answer.unwrap().into_body().collect().await.unwrap().to_bytes() == "done"
}

fn open(connections: &Connections) -> Vec<(String, usize, usize)> {
    connections.counts().into_iter().map(|lane| (lane.purpose, lane.open, lane.streams)).collect()
}

#[tokio::test(start_paused = true)]
async fn watches_never_block_requests_and_respect_the_servers_limit() {
    let server = Server::new(10);
    let (pool, connections) = server.pool();
    let watches = join_all((0..25).map(|_| ask(&pool, "/pods?watch=true"))).await;
    assert!(watches.iter().all(Result::is_ok));
    assert!(is_done(ask(&pool, "/pods").await).await);
    let three = vec![("requests".to_owned(), 1, 0), ("watches".to_owned(), 3, 25)];
    assert_eq!(open(&connections), three);
    assert!(server.busiest.load(Ordering::Relaxed) <= 10);

    drop(watches);
    let one = vec![("requests".to_owned(), 1, 0), ("watches".to_owned(), 1, 0)];
    let closed = async {
        while open(&connections) != one {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), closed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_replaced_within_ten_seconds() {
    let server = Server::new(100);
    let (pool, connections) = server.pool();
    assert!(is_done(ask(&pool, "/lease").await).await);
    // An idle connection stays open for hours.
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert!(is_done(ask(&pool, "/lease").await).await);
    assert_eq!(server.dialed(), 1);

    server.fall_silent();
    let since = Instant::now();
    assert!(ask(&pool, "/lease").await.is_err());
    assert!(since.elapsed() <= Duration::from_secs(10), "{:?}", since.elapsed());
    assert!(is_done(ask(&pool, "/lease").await).await);
    assert_eq!((server.dialed(), connections.counts()[0].lost), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_server_closed_gracefully_is_replaced_at_once() {
    let server = Server::new(250);
    let (pool, connections) = server.pool();
    assert!(is_done(ask(&pool, "/pods").await).await);
    server.farewell.send_modify(|times| *times += 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(open(&connections)[0], ("requests".to_owned(), 0, 0));
    let start = Instant::now();
    let asked = join_all((0..3).map(|_| ask(&pool, "/pods")));
    let answers = timeout(Duration::from_secs(30), asked).await.expect("the requests are sent");
    assert!(start.elapsed() < Duration::from_secs(2), "a dial takes one second: {:?}", start.elapsed());
    for answer in answers {
        assert!(is_done(answer).await);
    }
    assert_eq!((server.dialed(), connections.counts()[0].lost), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_a_silent_connection_ends_within_ten_seconds() {
    let server = Server::new(100);
    let (pool, _) = server.pool();
    let watch = ask(&pool, "/pods?watch=true").await.unwrap();
    server.fall_silent();
    let ended = timeout(Duration::from_secs(11), watch.into_body().collect()).await;
    assert!(ended.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_retried_on_another_connection() {
    let server = Server::new(100);
    let (pool, _) = server.pool();
    assert!(is_done(ask(&pool, "/lease").await).await);
    server.fall_silent();
    assert!(timeout(Duration::from_secs(4), ask(&pool, "/lease")).await.is_err());
    assert!(is_done(ask(&pool, "/lease").await).await);
    assert_eq!(server.dialed(), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_dial_and_its_failure() {
    let server = Server::new(100);
    let (pool, _) = server.pool();
    join_all((0..50).map(|_| ask(&pool, "/pods"))).await;
    assert_eq!(server.dialed(), 1);

    let away = Server { is_away: true, ..Server::new(100) };
    let (pool, _) = away.pool();
    let since = Instant::now();
    let answers = join_all((0..50).map(|_| ask(&pool, "/pods"))).await;
    let errors = answers.into_iter().map(|answer| answer.map(drop).unwrap_err().to_string());
    assert!(errors.into_iter().all(|error| error.starts_with("no connection to the API server: ")));
    assert!(since.elapsed() < Duration::from_secs(3) && away.dialed() <= 2, "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_http1_is_served_too() {
    let server = Server::new(100);
    server.speaks_http2.store(false, Ordering::Relaxed);
    let (pool, connections) = server.pool();
    let watch = ask(&pool, "/pods?watch=true").await.unwrap();
    assert!(is_done(ask(&pool, "/pods").await).await);
    drop(watch);
    // Later it supports HTTP/2.
    server.speaks_http2.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(is_done(ask(&pool, "/pods").await).await);
    assert_eq!(connections.counts()[0].made, 1);
}

#[tokio::test(start_paused = true)]
async fn a_reduced_stream_limit_is_respected() {
    let server = Server::new(100);
    let (pool, connections) = server.pool();
    let watches = join_all((0..10).map(|_| ask(&pool, "/pods?watch=true"))).await;
    server.permitted.send_replace(10);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let more = timeout(Duration::from_secs(60), ask(&pool, "/pods?watch=true")).await;
    assert!(more.is_ok_and(|answer| answer.is_ok()), "it does not wait behind watches that never end");
    assert_eq!(connections.counts()[1].open, 2);
    drop(watches);
}

#[tokio::test(start_paused = true)]
async fn counts_survive_a_new_client() {
    let server = Server::new(100);
    let (pool, connections) = server.pool();
    assert!(is_done(ask(&pool, "/pods").await).await);
    drop(pool);
    let ended = async {
        while connections.counts()[0].open > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), ended).await.unwrap();
    let http1 = HttpClient::builder(TokioExecutor::new()).build(server.clone());
    let pool = Pool::new(server.clone(), http1, Purpose::Pods, &connections);
    assert!(is_done(ask(&pool, "/pods").await).await);
    assert_eq!(connections.counts()[0].made, 2);
}
