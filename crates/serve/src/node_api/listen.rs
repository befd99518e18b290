//! Accepts connections and serves requests on them: HTTP/1.1, and HTTP/2 where TLS agrees on it. Knows no path.
//!
//! Whoever reaches the port can open connections, with credentials or without. Each one is bounded in time while nothing comes of it, and
//! all together in number: those of strangers make room for others.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use nix::sys::socket::{setsockopt, sockopt};
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connection_use::ConnectionUse;
use super::connections::{Connections, LetIn, Source};

/// Pause after a failed accept, most likely because of too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of connections.
const MOST: usize = 4_096;

/// Listen backlog; the kernel's own limit applies, too.
const BACKLOG: u32 = 4_096;

/// Time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time limit of an HTTP/1.1 request's headers. It includes the wait for the next request, which a scraper makes once a minute or so.
const HEADERS: Duration = super::connection_use::IDLE;

/// Maximum bytes of a request's headers (upstream's `MaxHeaderBytes`).
const HEADER_BYTES: u32 = 1 << 20;

/// Maximum number of requests at the same time on an HTTP/2 connection, as in Go.
const STREAMS: u32 = 250;

/// How many streams of an HTTP/2 connection may be reset before they are served, and how many of them may be wrong, before it is closed.
const RESETS: usize = 20;
const WRONG_STREAMS: usize = 256;

/// How often the other end of an HTTP/2 connection in use is checked, and how long it may take to answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// TCP keep-alive in seconds, as in Go: without it a session with a client that vanished would never end.
const KEEPALIVE: u32 = 15;

/// How long requests have to end at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens on it.
    #[error("{field}: another process listens on {address}, maybe another kubelet: stop it, or {remedy}")]
    InUse {
        /// The field with the port.
        field: &'static str,
        /// The configured address and port.
        address: SocketAddr,
        /// What else helps.
        remedy: &'static str,
    },
    /// It could not be opened.
    #[error("{field}: cannot listen on {address}")]
    Listen {
        /// The field with the port.
        field: &'static str,
        /// The configured address and port.
        address: SocketAddr,
        /// The operating system's error, e.g. that the port is in use.
        source: io::Error,
    },
}

/// The client certificate of a request's connection with its intermediates; empty without one.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientCertificates(pub(super) Arc<[CertificateDer<'static>]>);

/// How bytes travel.
pub(super) enum Transport {
    /// As they are, with HTTP/1.1.
    Plain,
    /// With TLS, whose configuration may change.
    Tls(watch::Receiver<Arc<ServerConfig>>),
}

/// Opens a port. `field` names its field of the configuration, and `remedy` what to change there.
///
/// As in Go, the unspecified address of one family is that of both, where the host has both.
pub(super) fn bind(
    address: SocketAddr,
    field: &'static str,
    remedy: &'static str,
) -> Result<TcpListener, ListenError> {
    let opened = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            open(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port())).or_else(|error| {
                match error.kind() {
                    io::ErrorKind::AddrInUse => Err(error),
                    // The host has no IPv6.
                    _ => open(address),
                }
            })
        }
        IpAddr::V4(_) | IpAddr::V6(_) => open(address),
    };
    opened.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { field, address, remedy },
        _ => ListenError::Listen { field, address, source },
    })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit these.
    socket.set_nodelay(true)?;
    socket.set_keepalive(true)?;
    setsockopt(&socket, sockopt::TcpKeepIdle, &KEEPALIVE)?;
    setsockopt(&socket, sockopt::TcpKeepInterval, &KEEPALIVE)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until cancelled. Dropping it closes the connections.
pub(super) async fn serve(
    listener: TcpListener,
    transport: &Transport,
    app: Router,
    cancel: &CancellationToken,
) {
    serve_at_most(MOST, listener, transport, app, cancel).await;
}

/// Serves at most this many connections at the same time.
async fn serve_at_most(
    most: usize,
    listener: TcpListener,
    transport: &Transport,
    app: Router,
    cancel: &CancellationToken,
) {
    let (mut tasks, mut connections) = (JoinSet::new(), Connections::new(most));
    let graceful = GracefulShutdown::new();
    let mut numbers = HashMap::new();
    loop {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => break,
            // Cancel-safe: a connection is accepted only when returned.
            accepted = listener.accept(), if connections.may_accept() => match accepted {
                Ok((stream, address)) => {
                    if let Some(stranger) = connections.make_room() {
                        AbortHandle::abort(&stranger);
                    }
                    let client = Client { source: address.ip().into(), let_in: LetIn::default() };
                    let (source, let_in) = (client.source, client.let_in.clone());
                    let task = tasks.spawn(connection(stream, client, tls(transport), app.clone(), graceful.watcher()));
                    let id = task.id();
                    numbers.insert(id, connections.add(source, let_in, task));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(PAUSE).await;
                }
            },
            // Cancel-safe: an ended task leaves the set only when returned.
            Some(ended) = tasks.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                numbers.remove(&id).into_iter().for_each(|number| connections.remove(number));
            }
        }
    }
    drop(listener);
    // A followed log never ends by itself.
    let _ = timeout(SHUTDOWN_GRACE, graceful.shutdown()).await;
}

/// The current configuration of TLS.
fn tls(transport: &Transport) -> Option<Arc<ServerConfig>> {
    match transport {
        Transport::Plain => None,
        Transport::Tls(config) => Some(config.borrow().clone()),
    }
}

/// Who is at the other end of a connection, as far as it is known. In the extensions of its requests.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Where it comes from.
    pub(super) source: Source,
    /// Whether their credentials let in a request.
    pub(super) let_in: LetIn,
}

/// Serves a connection.
async fn connection(
    stream: TcpStream,
    client: Client,
    tls: Option<Arc<ServerConfig>>,
    app: Router,
    watcher: Watcher,
) {
    let Some(tls) = tls else {
        let certificates = ClientCertificates::default();
        return serve_requests(stream, Version::Http1, client, certificates, app, watcher).await;
    };
    match timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await {
        Ok(Ok(stream)) => {
            let (_, session) = stream.get_ref();
            let certificates = ClientCertificates(session.peer_certificates().unwrap_or_default().into());
            let version = match session.alpn_protocol() {
                Some(b"h2") => Version::Http2,
                Some(_) | None => Version::Http1,
            };
            serve_requests(stream, version, client, certificates, app, watcher).await;
        }
        // Port scans and probes of load balancers end here.
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// A version of HTTP.
enum Version {
    Http1,
    Http2,
}

/// Serves requests with this version of HTTP until the connection ends or is of no use.
async fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    version: Version,
    client: Client,
    certificates: ClientCertificates,
    app: Router,
    watcher: Watcher,
) {
    let connection_use = ConnectionUse::new();
    let requests = connection_use.clone();
    let service = service_fn(move |request| answer(request, &client, &certificates, &app, &requests));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
    http2.max_concurrent_streams(STREAMS).max_header_list_size(HEADER_BYTES);
    http2.max_pending_accept_reset_streams(RESETS).max_local_error_reset_streams(WRONG_STREAMS);
    // To find out by the first bytes would wait for them without a limit.
    let builder = match version {
        Version::Http1 => builder.http1_only(),
        Version::Http2 => builder.http2_only(),
    };
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::select! {
        // Cancel-safe: a connection of no use has nothing to lose.
        ended = watcher.watch(connection) => if let Err(error) = ended {
            tracing::debug!(error, "a connection ended early");
        },
        // Cancel-safe: only reads a count.
        () = connection_use.ended() => {}
    }
}

/// The response of the router.
fn answer(
    mut request: Request<Incoming>,
    client: &Client,
    certificates: &ClientCertificates,
    app: &Router,
    connection: &ConnectionUse,
) -> impl Future<Output = Result<Response, Infallible>> + use<> {
    let in_progress = connection.begin();
    request.extensions_mut().insert(client.clone());
    request.extensions_mut().insert(certificates.clone());
    let app = app.clone();
    async move { Ok(in_progress.answered(app.oneshot(request.map(Body::new)).await?)) }
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
