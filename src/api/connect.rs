//! A client of the API server, made from a kubeconfig.
//!
//! The stack of layers is our own because kube's logs every answer it takes for a failure, and has no place for a rate
//! limit and TCP keep-alive.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Client;
use kube::client::{Body, ConfigExt};
use kube::config::{Config, KubeConfigOptions, NamedCluster};
use tower::limit::RateLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder};

use super::kubeconfig;
use super::pool::{Connections, Pool, Purpose};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection of HTTP/1.1 in use may be silent. An API server sends something on every watch about once a minute
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
    /// What the client is for.
    pub purpose: Purpose,
    /// Where its connections are counted.
    pub connections: Connections,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be used. What is wrong is a text, not a source: kube's errors tell their sources themselves.
    #[error(
        "--kubeconfig {}: {problem}; it must name a cluster, and the credentials of this node in a context that is current",
        path.display()
    )]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// It names a proxy.
    #[error(
        "--kubeconfig {}: clusters[{cluster}].cluster.proxy-url: hostlet does not speak to an API server through a proxy yet; \
         remove it, and let this node reach the server itself",
        path.display()
    )]
    Proxy {
        /// The file.
        path: PathBuf,
        /// Which cluster in it.
        cluster: usize,
    },
    /// The credentials or certificates in it cannot be used. As above.
    #[error("--kubeconfig {}: {problem}; correct or replace the credentials it names", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        problem: String,
    },
    /// The user agent is no header value.
    #[error("the user agent has characters that HTTP does not permit")]
    UserAgent(#[source] http::header::InvalidHeaderValue),
}

/// Makes a client. Connects to nothing yet: the server may be down for as long as it likes.
pub async fn connect(connection: &Connection) -> Result<Client, ConnectError> {
    let path = &connection.kubeconfig;
    let unusable = |error: &dyn std::error::Error| ConnectError::Kubeconfig {
        path: path.clone(),
        problem: error.to_string(),
    };
    let kubeconfig = kubeconfig::read(path).map_err(|error| unusable(&error))?;
    let has_proxy = |named: &NamedCluster| {
        named
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.proxy_url.as_deref())
            .is_some_and(|url| !url.is_empty())
    };
    if let Some(cluster) = kubeconfig.clusters.iter().position(has_proxy) {
        return Err(ConnectError::Proxy { path: path.clone(), cluster });
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| unusable(&error))?;
    let refused =
        |error: kube::Error| ConnectError::Credentials { path: path.clone(), problem: error.to_string() };

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_TRIES));
    let tls = tls(&config, tcp).map_err(refused)?;
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let mut http1 = connector.clone();
    http1.set_read_timeout(Some(SILENCE));
    http1.set_write_timeout(Some(SILENCE));
    let http1 = HttpClient::builder(TokioExecutor::new()).timer(TokioTimer::new()).build(http1);
    let http = Pool::new(connector, http1, connection.purpose, &connection.connections);

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
        .layer(config.extra_headers_layer().map_err(refused)?)
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

/// TLS with HTTP/2 where the server speaks it. kube's own connector speaks HTTP/1.1, which takes a connection for each watch
/// and for each request while others are under way.
fn tls(config: &Config, tcp: HttpConnector) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|error| kube::Error::Service(Box::new(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(tcp))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn connection(kubeconfig: PathBuf) -> Connection {
        Connection {
            kubeconfig,
            user_agent: "test".to_owned(),
            limit: None,
            purpose: Purpose::Pods,
            connections: Connections::default(),
        }
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_kubeconfig_is_told_once_with_its_file_and_a_remedy() {
        let dir = tempfile::TempDir::new().unwrap();
        let user = "users: [{name: u, user: {client-certificate: /none.crt, client-key: /none.key}}]";
        let whole = format!(
            "clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n{user}\n\
             contexts: [{{name: c, context: {{cluster: a, user: u}}}}]\ncurrent-context: c\n"
        );
        let proxied = whole.replace("server:", "proxy-url: 'http://127.0.0.1:2', server:");
        for (text, problem, remedy) in [
            (None, "No such file or directory", "must name a cluster"),
            (Some("a: ["), "line 1 column", "must name a cluster"),
            (Some("clusters: []"), "current context", "must name a cluster"),
            (Some(whole.as_str()), "/none.crt", "replace the credentials"),
            (Some(proxied.as_str()), "clusters[0].cluster.proxy-url", "remove it"),
        ] {
            let kubeconfig = dir.path().join("kubeconfig");
            let _ = std::fs::remove_file(&kubeconfig);
            if let Some(text) = text {
                std::fs::write(&kubeconfig, text).unwrap();
            }
            let connection = connection(kubeconfig);
            let error = connect(&connection).await.err().unwrap();
            let told = crate::types::error_chain(&error);
            assert!(
                told.starts_with(&format!("--kubeconfig {}: ", dir.path().join("kubeconfig").display())),
                "{told}"
            );
            assert!(told.contains(remedy) && told.matches(problem).count() == 1, "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }

    #[tokio::test]
    async fn whom_the_kubeconfig_acts_as_is_told_to_the_server() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dir = tempfile::TempDir::new().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let text = format!(
            "clusters: [{{name: a, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: u, user: {{as: somebody}}}}]\n\
             contexts: [{{name: c, context: {{cluster: a, user: u}}}}]\ncurrent-context: c\n",
            listener.local_addr().unwrap()
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let connection = connection(kubeconfig);
        let client = connect(&connection).await.unwrap();
        let asked = client.apiserver_version();
        let heard = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        };
        let (_, heard) = tokio::join!(asked, heard);
        assert!(heard.contains("impersonate-user: somebody"), "{heard}");
    }
}
