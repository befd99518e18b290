//! The routes and what happens at each.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_TYPE, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hostlet_observe::pleg::PlegHandle;
use hostlet_observe::status::PodDirectory;
use hostlet_runtime::cri::{RuntimeService, StdStreams};
use hostlet_runtime::streaming::{Answer, PROTOCOL_VERSION, SPDY, StreamUrl, upgrade};
use hostlet_telemetry::Metrics;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::Deserialize;

use super::super::answers::{Slashes, get_or_post, only_post};
use super::client::{Client, V5, is_websocket, speaks_v5, tunnel_of, tunnelled};
use super::copy::copy;
use super::error::RequestError;
use super::query::Parameters;
use super::reports::Reports;
use super::sessions::Sessions;
use super::target::Targets;
use super::translate::translate;
use super::tunnel::tunnel;
use super::websocket::{HandshakeError, accept, socket};

/// What the streams need of the daemon.
#[derive(Clone)]
pub struct StreamDeps {
    /// The pods of this node.
    pub pods: PodDirectory,
    /// What runs.
    pub pleg: PlegHandle,
    /// The runtime, whose streaming server carries out the sessions.
    pub runtime: Arc<dyn RuntimeService>,
    /// How long nothing may pass through a session (`streamingConnectionIdleTimeout`).
    pub idle: Duration,
    /// Counts WebSocket requests, by subresource.
    pub metrics: StreamMetrics,
}

/// Counts the requests of WebSockets that end here. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StreamMetrics(Family<[(&'static str, &'static str); 1], Counter>);

impl StreamMetrics {
    /// Adds the metric.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_websocket_streaming_requests",
            "Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet",
            self.0.clone(),
        );
    }

    fn count(&self, subresource: &'static str) {
        self.0.get_or_create(&[("subresource", subresource)]).inc();
    }
}

/// The state of the routes.
struct Streams {
    targets: Targets,
    runtime: Arc<dyn RuntimeService>,
    idle: Duration,
    sessions: Sessions,
    metrics: StreamMetrics,
}

/// The routes. Sessions end when the router and all of its clones are dropped.
pub(crate) fn routes(deps: StreamDeps) -> Router {
    let StreamDeps { pods, pleg, runtime, idle, metrics } = deps;
    let targets = Targets { pods, pleg };
    let streams = Streams { targets, runtime, idle, sessions: Sessions::default(), metrics };
    Router::new()
        .restful("/exec/{namespace}/{pod}/{container}", get_or_post(exec))
        .restful("/exec/{namespace}/{pod}/{uid}/{container}", get_or_post(exec))
        .restful("/attach/{namespace}/{pod}/{container}", get_or_post(attach))
        .restful("/attach/{namespace}/{pod}/{uid}/{container}", get_or_post(attach))
        .restful("/portForward/{namespace}/{pod}", get_or_post(port_forward))
        .restful("/portForward/{namespace}/{pod}/{uid}", get_or_post(port_forward))
        .restful("/run/{namespace}/{pod}/{container}", only_post(run))
        .restful("/run/{namespace}/{pod}/{uid}/{container}", only_post(run))
        .with_state(Arc::new(streams))
}

/// The segments of a path after its first one.
#[derive(Debug, Deserialize)]
struct Segments {
    namespace: String,
    pod: String,
    /// The UID, which most clients leave out.
    #[serde(default)]
    uid: String,
    /// Not in paths of `/portForward`.
    #[serde(default)]
    container: String,
}

/// Runs a command. Upstream ignores the UID.
async fn exec(
    State(streams): State<Arc<Streams>>,
    Path(path): Path<Segments>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, RequestError> {
    let parameters = Parameters::parse(&query.unwrap_or_default());
    let wanted = parameters.std_streams()?;
    let pod = streams.targets.pod(&path.namespace, &path.pod)?;
    let container = streams.targets.container(&pod.reference, &path.container)?;
    let container = container.ok_or(RequestError::NotRunning(path.container))?;
    let client = Client::of(request)?;
    let url = streams.runtime.exec(&container, parameters.all("command"), wanted).await;
    streams.serve_process("exec", client, &url.map_err(RequestError::Runtime)?, wanted).await
}

/// Attaches to the process of a container, whose spec says whether it has a terminal.
async fn attach(
    State(streams): State<Arc<Streams>>,
    Path(path): Path<Segments>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, RequestError> {
    let wanted = Parameters::parse(&query.unwrap_or_default()).std_streams()?;
    let pod = streams.targets.pod(&path.namespace, &path.pod)?;
    let container = streams.targets.container(&pod.reference, &path.container)?;
    let full_name = || pod.reference.full_name();
    let missing = || RequestError::NothingToAttach { container: path.container.clone(), pod: full_name() };
    let container = container.ok_or_else(missing)?;
    if !path.uid.is_empty() && path.uid != pod.reference.uid.as_str() {
        return Err(RequestError::OtherPod(full_name()));
    }
    let tty = pod.has_terminal(&path.container).ok_or_else(missing)?;
    let client = Client::of(request)?;
    let url = streams.runtime.attach(&container, StdStreams { tty, ..wanted }).await;
    streams.serve_process("attach", client, &url.map_err(RequestError::Runtime)?, wanted).await
}

/// Forwards connections to ports of a pod.
async fn port_forward(
    State(streams): State<Arc<Streams>>,
    Path(path): Path<Segments>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, RequestError> {
    let is_tunnel = !tunnelled(request.headers()).is_empty();
    // Other clients name the port of each connection when they open it.
    let ports = match is_websocket(request.headers()) && !is_tunnel {
        true => Parameters::parse(&query.unwrap_or_default()).ports()?,
        false => Vec::new(),
    };
    let pod = streams.targets.pod(&path.namespace, &path.pod)?;
    if !path.uid.is_empty() && path.uid != pod.reference.uid.as_str() {
        return Err(RequestError::OtherUid);
    }
    let sandbox = streams.targets.sandbox(&pod.reference)?;
    let sandbox = sandbox.ok_or_else(|| RequestError::PodNotRunning(pod.reference.full_name()))?;
    let client = Client::of(request)?;
    let url = streams.runtime.port_forward(&sandbox, &ports).await;
    let url = StreamUrl::parse(&url.map_err(RequestError::Runtime)?)?;
    if is_tunnel {
        streams.metrics.count("portforward");
        streams.serve_tunnel(client, &url).await
    } else {
        let reports = (!is_websocket(&client.headers)).then(Reports::default);
        streams.connect(client, &url, reports).await
    }
}

/// Runs a command without streams, and answers with what it printed (upstream's `getRun`). Any failure is an internal error.
async fn run(
    State(streams): State<Arc<Streams>>,
    Path(path): Path<Segments>,
    RawQuery(query): RawQuery,
) -> Result<Response, RequestError> {
    let pod = streams.targets.pod(&path.namespace, &path.pod)?;
    let container = streams.targets.container(&pod.reference, &path.container)?;
    let container = container.ok_or(RequestError::NotRunning(path.container))?;
    let command = Parameters::parse(&query.unwrap_or_default()).first("cmd").to_owned();
    let words = command.split(' ').map(str::to_owned).collect();
    let done = streams.runtime.exec_sync(&container, words, Duration::MAX).await;
    let mut done = done.map_err(RequestError::NotRun)?;
    if done.exit_code != 0 {
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(RequestError::Exited { command, code: done.exit_code, stderr });
    }
    done.stdout.append(&mut done.stderr);
    if done.stdout.is_empty() {
        return Ok(StatusCode::OK.into_response());
    }
    Ok(([(CONTENT_TYPE, "application/json")], done.stdout).into_response())
}

impl Streams {
    /// Serves a process: translates for clients that need it, connects the others.
    async fn serve_process(
        &self,
        subresource: &'static str,
        client: Client,
        url: &str,
        wanted: StdStreams,
    ) -> Result<Response, RequestError> {
        let url = StreamUrl::parse(url)?;
        if !speaks_v5(&client.headers) {
            return self.connect(client, &url, None).await;
        }
        self.metrics.count(subresource);
        let response = accept(&client.method, &client.headers, Some(HeaderValue::from_static(V5)))?;
        let idle = self.idle;
        self.sessions.start(async move {
            // Fails if the client has left.
            if let Ok(connection) = client.connection.await {
                translate(socket(connection).await, url, wanted, idle).await;
            }
        });
        Ok(response)
    }

    /// Connects a client to the runtime as it is, except for reports.
    async fn connect(
        &self,
        client: Client,
        url: &StreamUrl,
        reports: Option<Reports>,
    ) -> Result<Response, RequestError> {
        let headers = client.upgrade_headers();
        let (headers, io) = match upgrade(url, client.method, headers).await? {
            Answer::Switched { headers, io } => (headers, io),
            Answer::Rejected(response) => return refusal(response),
        };
        let idle = self.idle;
        self.sessions.start(async move {
            // Fails if the client has left.
            if let Ok(connection) = client.connection.await {
                copy(TokioIo::new(connection), io, reports, idle).await;
            }
        });
        Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
    }

    /// Connects a client's tunnel to the runtime.
    async fn serve_tunnel(&self, client: Client, url: &StreamUrl) -> Result<Response, RequestError> {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
        for protocol in tunnelled(&client.headers) {
            headers.append(
                PROTOCOL_VERSION,
                HeaderValue::try_from(protocol).map_err(|_| HandshakeError::NoTunnel)?,
            );
        }
        let (headers, io) = match upgrade(url, Method::POST, headers).await? {
            Answer::Switched { headers, io } => (headers, io),
            Answer::Rejected(response) => return refusal(response),
        };
        let chosen = headers.get(PROTOCOL_VERSION).and_then(|chosen| chosen.to_str().ok());
        let chosen = chosen.and_then(|chosen| HeaderValue::try_from(tunnel_of(chosen.trim())).ok());
        let response = accept(&client.method, &client.headers, chosen)?;
        let idle = self.idle;
        self.sessions.start(async move {
            // Fails if the client has left.
            if let Ok(connection) = client.connection.await {
                tunnel(socket(connection).await, io, idle).await;
            }
        });
        Ok(response)
    }
}

/// Passes an error of the runtime's server on.
fn refusal(response: axum::http::Response<bytes::Bytes>) -> Result<Response, RequestError> {
    let (head, text) = response.into_parts();
    if !(head.status.is_client_error() || head.status.is_server_error()) {
        return Err(RequestError::InvalidAnswer(head.status.as_u16()));
    }
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = head.status;
    if let Some(kind) = head.headers.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    Ok(response)
}
