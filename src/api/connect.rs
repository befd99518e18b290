//! A client of the API server, made from a kubeconfig.
//!
//! The stack of layers is our own because kube's logs every answer it takes for a failure, and has no place for a rate
//! limit and TCP keep-alive.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::{Body, ConfigExt};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::limit::RateLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection in use may be silent. An API server sends something on every watch about once a minute
/// (a bookmark), so a watch that is silent for longer is dead, even if its far end still acknowledges packets.
const SILENCE: Duration = Duration::from_secs(150);

/// How long the server may take until its answer begins. Whoever wants it sooner has a deadline of his own.
const ANSWER: Duration = Duration::from_secs(30);

/// When the kernel asks whether the far end of a silent connection is still there, and how often until it gives up.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_TRIES: u32 = 3;

/// How hostlet speaks to the API server.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// `User-Agent`.
    pub user_agent: String,
    /// Requests a second in the long run, and at once; `None` for no limit (`kubeAPIQPS`, `kubeAPIBurst`).
    pub limit: Option<(NonZeroU32, NonZeroU32)>,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be used.
    #[error("cannot use the kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// The credentials or certificates in it cannot be used.
    #[error("cannot use the credentials in the kubeconfig {path}")]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: Box<kube::Error>,
    },
    /// The user agent is no header value.
    #[error("the user agent has characters that HTTP does not permit")]
    UserAgent(#[source] http::header::InvalidHeaderValue),
}

/// Makes a client. Connects to nothing yet: the server may be down for as long as it likes.
pub async fn connect(connection: &Connection) -> Result<Client, ConnectError> {
    let path = &connection.kubeconfig;
    let unusable = |source| ConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) };
    let config = read(path).await.map_err(unusable)?;
    let refused = |source| ConnectError::Credentials { path: path.clone(), source: Box::new(source) };

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_TRIES));
    let tls = config.rustls_https_connector_with_connector(tcp).map_err(refused)?;
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_read_timeout(Some(SILENCE));
    connector.set_write_timeout(Some(SILENCE));
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);

    let agent = HeaderValue::from_str(&connection.user_agent).map_err(ConnectError::UserAgent)?;
    let limit = connection.limit.map(|(qps, burst)| {
        let window = Duration::from_secs_f64(f64::from(burst.get()) / f64::from(qps.get()));
        RateLimitLayer::new(burst.get().into(), window)
    });
    let service = ServiceBuilder::new()
        .option_layer(limit)
        .map_err(in_words)
        .layer(answer_deadline())
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(refused)?)
        .map_request(move |mut request: http::Request<Body>| {
            request.headers_mut().insert(USER_AGENT, agent.clone());
            request
        })
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// Gives up requests whose answer does not begin, also those that open a watch. The time that a rate limit holds a request
/// back does not count.
pub(super) fn answer_deadline() -> TimeoutLayer {
    TimeoutLayer::new(ANSWER)
}

/// The deadline's own error says nothing of what was waited for.
pub(super) fn in_words(error: BoxError) -> BoxError {
    if error.is::<tower::timeout::error::Elapsed>() {
        return format!("the API server did not answer within {} s", ANSWER.as_secs()).into();
    }
    error
}

async fn read(path: &Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}
