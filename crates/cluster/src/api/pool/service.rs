//! The pool as a service for HTTP requests, which selects a lane for each. Without HTTP/2 on the server it falls back to a
//! client that uses a connection per request.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connect, Connection as Connected};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::dial::add_http2;
use super::lane::{Connections, Lane};
use super::slot::{ResponseBody, StreamSlot};

/// Maximum attempts to send a request that was not sent because its connection was closed.
const MAX_ATTEMPTS: usize = 3;

/// How long the lack of HTTP/2 is remembered: later another server or proxy may have its address.
const HTTP1_PERIOD: Duration = Duration::from_secs(60);

/// Creates connections.
pub(in crate::api) trait Connector:
    Connect + Service<Uri, Response: Io, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<C> Connector for C where
    C: Connect
        + Service<Uri, Response: Io, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The I/O of a connection.
pub(in crate::api) trait Io: Read + Write + Connected + Unpin + Send + 'static {}

impl<T: Read + Write + Connected + Unpin + Send + 'static> Io for T {}

/// A failed dial.
#[derive(Debug, thiserror::Error)]
#[error("no connection to the API server: {0}")]
struct Unreachable(String);

/// The connections of one client. Cheap to clone.
pub(in crate::api) struct Pool<C> {
    inner: Arc<Inner<C>>,
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<C> {
    connector: C,
    requests: Arc<Lane>,
    watches: Arc<Lane>,
    /// When the server was last found without HTTP/2.
    http1_since: Mutex<Option<Instant>>,
    http1: HttpClient<C, Body>,
}

impl<C: Connector> Pool<C> {
    /// Creates a pool that dials with `connector`, or uses `http1` while the server does not support HTTP/2. Its connections are
    /// counted in `connections`.
    pub(in crate::api) fn new(
        connector: C,
        http1: HttpClient<C, Body>,
        purpose: Purpose,
        connections: &Connections,
    ) -> Self {
        let requests = Lane::new(purpose.requests(), connections);
        let watches = purpose.watches().map_or_else(|| requests.clone(), |name| Lane::new(name, connections));
        let http1_since = Mutex::default();
        Self { inner: Arc::new(Inner { connector, requests, watches, http1_since, http1 }) }
    }
}

/// The purpose of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pods and the objects they refer to. Watches have separate connections.
    Pods,
    /// The Node and its lease, which must not queue.
    Node,
    /// Events.
    Events,
    /// Reviews of the clients of the node's API.
    Reviews,
    /// The request for the first client certificate.
    Bootstrap,
}

impl Purpose {
    fn requests(self) -> &'static str {
        match self {
            Self::Pods => "requests",
            Self::Node => "node and lease",
            Self::Events => "events",
            Self::Reviews => "reviews",
            Self::Bootstrap => "bootstrap",
        }
    }

    /// The lane of watches; `None` if they share the lane of requests.
    fn watches(self) -> Option<&'static str> {
        match self {
            Self::Pods => Some("watches"),
            Self::Node | Self::Events | Self::Reviews | Self::Bootstrap => None,
        }
    }
}

impl<C: Connector> Inner<C> {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let lane = if is_watch(request.uri()) { &self.watches } else { &self.requests };
        let mut attempts = 0;
        loop {
            let Some(mut slot) = self.slot(lane, request.uri()).await? else {
                let response = self.http1.request(request).await?;
                lane.answered();
                return Ok(response.map(|body| ResponseBody::new(body, None)));
            };
            attempts += 1;
            match slot.sender().try_send_request(request).await {
                Ok(response) => {
                    slot.answered();
                    lane.answered();
                    return Ok(response.map(|body| ResponseBody::new(body, Some(slot))));
                }
                Err(mut error) => match error.take_message().filter(|_| attempts < MAX_ATTEMPTS) {
                    // Unsent: the connection was closed in the meantime.
                    Some(unsent) => {
                        slot.retire();
                        request = unsent;
                    }
                    None => return Err(error.into_error().into()),
                },
            }
        }
    }

    /// A slot for a request to `uri`; `None` if the server does not support HTTP/2.
    async fn slot(&self, lane: &Arc<Lane>, uri: &Uri) -> Result<Option<StreamSlot>, Unreachable> {
        // Without TLS there is no ALPN.
        if self.is_http1() || uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(None);
        }
        if let Some(slot) = StreamSlot::take(lane) {
            return Ok(Some(slot));
        }
        let failures = lane.failures();
        let _dialing = lane.dialing.lock().await;
        if let Some(slot) = StreamSlot::take(lane) {
            return Ok(Some(slot));
        }
        if self.is_http1() {
            return Ok(None);
        }
        // The dial we waited for failed, and so would ours.
        if let Some(why) = lane.failed_since(failures) {
            return Err(Unreachable(why));
        }
        match self.dial(lane, uri).await {
            Ok(true) => match StreamSlot::take(lane) {
                Some(slot) => Ok(Some(slot)),
                None => Err(Unreachable("it was closed as soon as it was made".to_owned())),
            },
            Ok(false) => Ok(None),
            Err(error) => {
                let why = hostlet_base::error_chain(&*error);
                lane.failed(&why);
                Err(Unreachable(why))
            }
        }
    }

    /// Whether the server was recently found without HTTP/2.
    fn is_http1(&self) -> bool {
        self.http1_since().is_some_and(|since| since.elapsed() < HTTP1_PERIOD)
    }

    fn http1_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.http1_since.lock()
    }

    /// Dials; returns whether the connection uses HTTP/2.
    async fn dial(&self, lane: &Arc<Lane>, uri: &Uri) -> Result<bool, BoxError> {
        let io = self.connector.clone().oneshot(uri.clone()).await.map_err(Into::into)?;
        if !io.connected().is_negotiated_h2() {
            *self.http1_since() = Some(Instant::now());
            return Ok(false);
        }
        *self.http1_since() = None;
        add_http2(io, lane).await?;
        Ok(true)
    }
}

/// Whether a request opens a watch.
pub(in crate::api) fn is_watch(uri: &Uri) -> bool {
    let mut fields = uri.query().unwrap_or_default().split('&');
    fields.any(|field| matches!(field, "watch=true" | "watch=1"))
}

impl<C: Connector> Service<Request<Body>> for Pool<C> {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { inner.send(request).await })
    }
}
