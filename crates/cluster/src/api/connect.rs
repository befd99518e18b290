//! The API server's client, which sends each request with the current credentials.
//!
//! The layer stack is our own because kube's logs every response that it considers a failure, and supports neither a rate
//! limit nor TCP keep-alive nor `Retry-After`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hostlet_net::http::{ProxyDialer, Resolver};
use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Client;
use kube::client::{Body, ConfigExt};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::timeout::TimeoutLayer;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use super::credentials::{Credentials, Login};
use super::limit::{Priority, RequestLimit};
use super::pool::{Connections, Pool, Purpose, ResponseBody, is_watch};
use super::retry_after::{Answer, with_retry_after};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Read and write timeout of an HTTP/1.1 connection in use. An API server sends something on every watch about once a minute (a
/// bookmark), so a watch that is silent for longer is dead, even if the peer still acknowledges packets.
const READ_TIMEOUT: Duration = Duration::from_secs(150);

/// Timeout until the response starts. Callers may set a shorter deadline.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// TCP keep-alive: idle time, interval and number of probes.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_TRIES: u32 = 3;

/// What distinguishes one client of the API server from another.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The `User-Agent` header, by which audit logs tell clients apart.
    pub user_agent: String,
    /// Requests per second and burst; `None` for no limit (`kubeAPIQPS`, `kubeAPIBurst`).
    pub limit: Option<(NonZeroU32, NonZeroU32)>,
    /// The client's purpose.
    pub purpose: Purpose,
    /// Counter of its connections.
    pub connections: Connections,
}

/// Why a client could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The user agent is not a valid header value.
    #[error("the user agent has characters that HTTP does not permit")]
    UserAgent(#[source] http::header::InvalidHeaderValue),
}

/// Two clients on the same connections and within the same limit.
#[derive(Clone)]
pub struct PrioritizedClients {
    /// Its requests pass those of the other that wait for the limit.
    pub urgent: Client,
    /// Its requests are sent in order.
    pub normal: Client,
}

/// Creates a client without connecting: the server may be down and credentials may be missing, which requests report.
pub fn connect(connection: &ClientOptions, credentials: Credentials) -> Result<Client, ConnectError> {
    connect_prioritized(connection, credentials).map(|clients| clients.normal)
}

/// The same, with a second client for what is urgent.
pub fn connect_prioritized(
    connection: &ClientOptions,
    credentials: Credentials,
) -> Result<PrioritizedClients, ConnectError> {
    let agent = HeaderValue::from_str(&connection.user_agent).map_err(ConnectError::UserAgent)?;
    let limit = connection.limit.map(|(qps, burst)| RequestLimit::new(qps, burst));
    let (purpose, connections) = (connection.purpose, connection.connections.clone());
    let sender = Arc::new(Sender { credentials, agent, purpose, connections, current: Mutex::new(None) });
    let with = |priority| client(sender.clone(), limit.clone(), priority);
    Ok(PrioritizedClients { urgent: with(Priority::Urgent), normal: with(Priority::Normal) })
}

fn client(sender: Arc<Sender>, limit: Option<RequestLimit>, priority: Priority) -> Client {
    let sending = service_fn(move |request| {
        let sender = sender.clone();
        async move { sender.send(request).await }
    });
    let timed = ServiceBuilder::new().map_err(describe_timeout).layer(response_timeout()).service(sending);
    let timed = BoxCloneService::new(timed);
    let service = service_fn(move |request: Request<Body>| {
        let (timed, limit) = (timed.clone(), limit.clone());
        async move {
            // Like client-go's, the limit does not count watches.
            if let Some(limit) = limit.filter(|_| !is_watch(request.uri())) {
                limit.wait(priority).await;
            }
            timed.oneshot(request).await
        }
    });
    // Unused: all requests have a namespace.
    Client::new(service, "default")
}

/// A service that sends requests on connections with one identity.
type Transport = BoxCloneService<Request<Body>, Response<ResponseBody>, BoxError>;

/// A service that sends requests with the current credentials.
struct Sender {
    credentials: Credentials,
    agent: HeaderValue,
    purpose: Purpose,
    connections: Connections,
    /// The connections, and the credentials that they were made with.
    current: Mutex<Option<(Arc<Login>, Transport)>>,
}

impl Sender {
    async fn send(&self, mut request: Request<Body>) -> Result<Answer<ResponseBody>, BoxError> {
        let ready = self.credentials.get().await?;
        let transport = self.transport(&ready.login)?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, self.agent.clone());
        if let Some(authorization) = &ready.login.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let (method, began) = (request.method().clone(), Instant::now());
        let sent = transport.oneshot(request).await;
        let code = sent.as_ref().ok().map(Response::status);
        // A request has only the path: the layer below adds the server.
        let server = &ready.login.config.cluster_url;
        self.connections.requests.answered(&method, server, code, began.elapsed());
        let response = sent?;
        match response.status() {
            StatusCode::UNAUTHORIZED => self.credentials.rejected(&ready),
            _ => self.credentials.accepted(),
        }
        with_retry_after(response).await.map_err(BoxError::from)
    }

    /// The connections for this login; new ones if the certificate changed. Requests in flight finish on the old ones.
    fn transport(&self, login: &Arc<Login>) -> Result<Transport, kube::Error> {
        let mut current = self.current.lock();
        if let Some((known, transport)) = &*current
            && known.shares_connections(login)
        {
            return Ok(transport.clone());
        }
        let transport = transport(login, self.purpose, &self.connections)?;
        *current = Some((login.clone(), transport.clone()));
        Ok(transport)
    }
}

/// Connections to the server of `login`, counted in `connections`.
fn transport(login: &Login, purpose: Purpose, connections: &Connections) -> Result<Transport, kube::Error> {
    let mut tcp = Resolver::default().connector();
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_TRIES));
    let config = &login.config;
    let dialer = ProxyDialer::new(tcp, login.proxy.as_ref(), &login.tls);
    let mut connector = TimeoutConnector::new(tls(login, dialer)?);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let mut http1 = connector.clone();
    http1.set_read_timeout(Some(READ_TIMEOUT));
    http1.set_write_timeout(Some(READ_TIMEOUT));
    let http1 = HttpClient::builder(TokioExecutor::new()).timer(TokioTimer::new()).build(http1);
    let http = Pool::new(connector, http1, purpose, connections);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(BoxCloneService::new(service))
}

/// Cancels requests, including watches, whose response does not start in time. Waiting for the rate limit does not count.
pub(super) fn response_timeout() -> TimeoutLayer {
    TimeoutLayer::new(RESPONSE_TIMEOUT)
}

/// Replaces the timeout's own error, which does not say what timed out.
pub(super) fn describe_timeout(error: BoxError) -> BoxError {
    if error.is::<tower::timeout::error::Elapsed>() {
        return format!("the API server did not answer within {} s", RESPONSE_TIMEOUT.as_secs()).into();
    }
    error
}

/// TLS with HTTP/2 where the server supports it. kube's own connector uses HTTP/1.1, which needs a connection for each watch
/// and each concurrent request.
fn tls(login: &Login, dialer: ProxyDialer) -> Result<HttpsConnector<ProxyDialer>, kube::Error> {
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(login.tls.clone()).https_or_http();
    if let Some(name) = &login.config.tls_server_name {
        let name = name.clone().try_into().map_err(|error| kube::Error::Service(Box::new(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(dialer))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_util::sync::{CancellationToken, DropGuard};

    use super::*;
    use crate::api::CredentialsSource;
    use hostlet_telemetry::Metrics;

    /// A client with the credentials of a kubeconfig, connected to the test's server.
    async fn client(dir: &Path, user: &str) -> (Client, TcpListener, DropGuard) {
        counted(dir, user, Connections::default()).await
    }

    async fn counted(dir: &Path, user: &str, connections: Connections) -> (Client, TcpListener, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = dir.join("kubeconfig");
        let server = format!("http://{}", listener.local_addr().unwrap());
        let text = crate::api::kubeconfig::of_one_user(&server, user);
        std::fs::write(&kubeconfig, text).unwrap();
        let (task, credentials) = Credentials::new(CredentialsSource::new(kubeconfig));
        let cancel = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(task.run(cancel.clone()));
        let connection =
            ClientOptions { user_agent: "test".to_owned(), limit: None, purpose: Purpose::Pods, connections };
        (connect(&connection, credentials).unwrap(), listener, cancel.drop_guard())
    }

    /// Reads a request on a new connection and responds with this status only.
    async fn hear(listener: &TcpListener, status: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    }

    #[tokio::test]
    async fn impersonation_headers_are_sent() {
        let dir = tempfile::TempDir::new().unwrap();
        let (client, listener, _running) = client(dir.path(), "{as: somebody, token: t}").await;
        let (_, heard) = tokio::join!(client.apiserver_version(), hear(&listener, "200 OK"));
        assert!(heard.contains("impersonate-user: somebody"), "{heard}");
        assert!(heard.contains("authorization: Bearer t") && heard.contains("user-agent: test"), "{heard}");
    }

    #[tokio::test]
    async fn requests_are_counted_by_the_servers_host() {
        let dir = tempfile::TempDir::new().unwrap();
        let connections = Connections::default();
        let (client, listener, _running) = counted(dir.path(), "{token: t}", connections.clone()).await;
        let _ = tokio::join!(client.apiserver_version(), hear(&listener, "200 OK"));
        let metrics = Metrics::default();
        connections.register(&metrics);
        let (text, host) = (metrics.encode(), listener.local_addr().unwrap());
        let line = format!("rest_client_requests_total{{code=\"200\",method=\"GET\",host=\"{host}\"}} 1");
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }

    #[tokio::test]
    async fn a_rejected_token_is_read_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "one").unwrap();
        let (client, listener, _running) = client(dir.path(), "{tokenFile: token}").await;
        let (_, heard) = tokio::join!(client.apiserver_version(), hear(&listener, "401 Unauthorized"));
        assert!(heard.contains("Bearer one"), "{heard}");
        let new = dir.path().join("new");
        std::fs::write(&new, "two").unwrap();
        std::fs::rename(&new, &token).unwrap();
        let renewed = async {
            loop {
                let (_, heard) =
                    tokio::join!(client.apiserver_version(), hear(&listener, "401 Unauthorized"));
                if heard.contains("Bearer two") {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), renewed).await.unwrap();
    }

    #[tokio::test]
    async fn without_credentials_a_request_fails_with_their_problem() {
        let dir = tempfile::TempDir::new().unwrap();
        let (client, _listener, _running) = client(dir.path(), "{tokenFile: none}").await;
        let error = super::super::message(&client.apiserver_version().await.unwrap_err());
        let kubeconfig = dir.path().join("kubeconfig");
        assert!(error.contains(&format!("--kubeconfig {}: ", kubeconfig.display())), "{error}");
        assert!(error.contains("none cannot be read: No such file"), "{error}");
    }
}
