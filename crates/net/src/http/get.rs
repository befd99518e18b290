//! A GET of an address that a pod names, with its redirects and its time limit, as Go's `net/http` makes it for probes and hooks of the
//! stock kubelet: a connection of its own that ends with the answer, no proxy, no verification of certificates, HTTP/2 if TLS negotiates
//! it, redirects on the same host, and the texts of Go's errors.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hostlet_base::{HttpScheme, HttpUrl, PodUid, error_chain, go_quoted};
use rustls::ClientConfig;
use rustls::client::Resumption;
use tokio::time::{Instant, timeout_at};

use super::dial::{ConnectError, PodDialer};
use super::exchange::{self, Broken, Outgoing, Received};
use super::headers::{GivenHeaders, referer};
use super::stream::{Stream, Watched};
use crate::tls::{Trust, client_config};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 10;

/// How HTTP is spoken without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpProtocol {
    /// HTTP/1.1, as every server speaks it.
    #[default]
    Http1,
    /// HTTP/2 from the first byte (`httpGet.protocol: HTTP2`).
    Http2,
}

/// A GET request of a probe or hook.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The pod whose probe or hook makes it: lookups of names are limited per pod.
    pub pod: PodUid,
    /// Where to.
    pub url: HttpUrl,
    /// Headers from a pod's spec, which override the client's own.
    pub headers: Vec<(String, String)>,
    /// The value of `User-Agent`, unless the pod sets that header.
    pub user_agent: String,
    /// How HTTP is spoken.
    pub protocol: HttpProtocol,
    /// Whether `Authorization` is left out.
    pub is_anonymous: bool,
    /// The time for all of it, with redirects and the body.
    pub timeout: Duration,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Its status code; a redirect's own if the redirect leads to another host or nowhere.
    pub status: u16,
    /// The first 10 KiB of its body.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The request cannot be made.
    #[error("{0}")]
    Request(String),
    /// It failed before the head of the response, for instance because nothing listens there. The text is Go's, with the address.
    #[error("{0}")]
    Exchange(String),
    /// The same, because the server was to speak TLS, but speaks HTTP.
    #[error("{0}")]
    NoTls(String),
    /// The body of the response could not be read.
    #[error("{0}")]
    Body(String),
}

/// Makes requests. Cheap to clone; clones share the TLS configuration and lookups of names.
#[derive(Clone, Debug, Default)]
pub struct HttpClient {
    dialer: PodDialer,
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl HttpClient {
    /// A client that connects with this dialer.
    pub fn new(dialer: PodDialer) -> Self {
        Self { dialer, tls: Arc::default() }
    }

    /// Makes a request. Dropping the future closes its connection.
    pub async fn get(&self, request: &HttpRequest) -> Result<HttpAnswer, HttpError> {
        let deadline = Instant::now() + request.timeout;
        let given = GivenHeaders::new(&request.headers, &request.user_agent)
            .map_err(|error| HttpError::Request(error.to_string()))?;
        let given = if request.is_anonymous { given.without_authorization() } else { given };
        let (mut url, mut from) = (request.url.clone(), None::<HttpUrl>);
        // Only redirects relative to it keep the host that the spec gives.
        let mut keeps_host = true;
        for followed in 0..=MAX_REDIRECTS {
            let of_url = |text: &str| format!("Get {}: {text}", go_quoted(&url.to_string()));
            let referer = from.as_ref().and_then(|from| referer(from, &url));
            let hop = Hop {
                pod: &request.pod,
                url: &url,
                given: &given,
                keeps_host,
                referer,
                protocol: request.protocol,
            };
            let received = self.ask(hop, &request.url, deadline).await.map_err(|broken| match broken {
                Broken::Head(text) => HttpError::Exchange(of_url(&text)),
                Broken::NoTls => HttpError::NoTls(of_url(&ConnectError::NoTls.to_string())),
                Broken::HeadTimedOut => HttpError::Exchange(of_url(
                    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                )),
                Broken::Body(text) => HttpError::Body(text),
                Broken::BodyTimedOut => HttpError::Body(
                    "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
                        .to_owned(),
                ),
            })?;
            let Some(location) = redirect(received.status, received.location.as_deref()) else {
                return Ok(HttpAnswer { status: received.status, body: received.body });
            };
            let next = url.join(location).map_err(|error| HttpError::Exchange(of_url(&error.to_string())))?;
            if next.host != request.url.host {
                return Ok(HttpAnswer { status: received.status, body: received.body });
            }
            if followed + 1 >= MAX_REDIRECTS {
                let text = format!("Get {}: stopped after {MAX_REDIRECTS} redirects", go_quoted(location));
                return Err(HttpError::Exchange(text));
            }
            keeps_host &= !location.contains("//");
            from = Some(std::mem::replace(&mut url, next));
        }
        // Not reached: the last round returns.
        Err(HttpError::Exchange(format!("stopped after {MAX_REDIRECTS} redirects")))
    }

    async fn ask(&self, hop: Hop<'_>, first: &HttpUrl, deadline: Instant) -> Result<Received, Broken> {
        let Hop { pod, url, given, keeps_host, referer, protocol } = hop;
        let connected = timeout_at(deadline, self.connect(pod, url)).await;
        let stream = connected.map_err(|_| Broken::HeadTimedOut)?;
        let mut stream = stream.map_err(|error| match error {
            ConnectError::NoTls => Broken::NoTls,
            error => Broken::Head(error.to_string()),
        })?;
        let host = given.host(url, keeps_host);
        let host = host.ok_or_else(|| Broken::Head("http: invalid Host header".to_owned()))?;
        // The body of a response that is followed is of no use.
        let wants_body = |status: u16, location: Option<&str>| {
            let next = redirect(status, location).and_then(|location| url.join(location).ok());
            next.is_none_or(|next| next.host != first.host)
        };
        let is_http2 = match url.scheme {
            HttpScheme::Http => protocol == HttpProtocol::Http2,
            // As upstream, whatever the spec says.
            HttpScheme::Https => stream.is_http2(),
        };
        if is_http2 {
            let authority = String::from_utf8_lossy(host.as_bytes()).into_owned();
            let scheme = match url.scheme {
                HttpScheme::Http => "http",
                HttpScheme::Https => "https",
            };
            let path = if url.target.starts_with('/') { "" } else { "/" };
            let target = format!("{scheme}://{authority}{path}{}", url.target);
            let outgoing = Outgoing { target, headers: given.http2(referer) };
            exchange::http2(&mut stream, outgoing, deadline, wants_body).await
        } else {
            let path = if url.target.starts_with('/') { "" } else { "/" };
            let target = format!("{path}{}", url.target);
            let outgoing = Outgoing { target, headers: given.http1(host, referer) };
            exchange::http1(&mut stream, outgoing, deadline, wants_body).await
        }
    }

    async fn connect(&self, pod: &PodUid, url: &HttpUrl) -> Result<Watched<Stream>, ConnectError> {
        let tcp = self.dialer.dial(pod, &url.host, url.port()).await?;
        match url.scheme {
            HttpScheme::Http => Ok(Watched::plain(tcp)),
            HttpScheme::Https => Watched::tls(tcp, &url.host, self.tls()?).await,
        }
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let config = Arc::new(unverified(&[b"h2", b"http/1.1"])?);
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

/// A TLS configuration that takes every certificate, for these protocols, and keeps nothing of a connection for the next.
pub fn unverified(protocols: &[&[u8]]) -> Result<ClientConfig, ConnectError> {
    let mut config =
        client_config(Trust::Anybody, None).map_err(|error| ConnectError::Config(error_chain(&error)))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// One of the requests for an answer.
struct Hop<'a> {
    pod: &'a PodUid,
    url: &'a HttpUrl,
    given: &'a GivenHeaders,
    keeps_host: bool,
    referer: Option<&'a HttpUrl>,
    protocol: HttpProtocol,
}

/// Where a response redirects to.
fn redirect(status: u16, location: Option<&str>) -> Option<&str> {
    let location = location.filter(|location| !location.is_empty())?;
    matches!(status, 301 | 302 | 303 | 307 | 308).then_some(location)
}
