//! Fetches a document from a URL of the configuration, by the rules of Go's default HTTP client: proxies of the environment, the
//! certificate authorities of the system, redirects. Knows no Kubernetes object.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hostlet_base::HttpUrl;
use hostlet_host::file_work;
use http::header::{AUTHORIZATION, COOKIE, HeaderName, LOCATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use tokio::time::timeout;

use super::basic;
use super::proxy::{Proxy, ProxyDialer, ProxyEnvironment, ProxyError};
use super::resolver::Resolver;
use crate::tls::{TlsError, Trust, client_config};

/// Upstream's timeout of a fetch, redirects and body included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Go's limit of the requests for one document.
const MAX_REQUESTS: usize = 10;
/// Headers that are not sent to another host.
const SENSITIVE: [HeaderName; 2] = [AUTHORIZATION, COOKIE];

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The environment names an unusable proxy.
    #[error("{0} in the environment of hostlet is unusable")]
    Proxy(&'static str, #[source] ProxyError),
    /// No certificate can be verified.
    #[error("TLS is not possible")]
    Trust(#[source] TlsError),
    /// No thread could load the authorities.
    #[error("the certificate authorities of the system were not loaded")]
    Load,
    /// No answer arrived.
    #[error("the request failed")]
    Request(#[source] hyper_util::client::legacy::Error),
    /// The answer broke off.
    #[error("the answer is incomplete")]
    Body(#[source] hyper::Error),
    /// It took too long.
    #[error("the server did not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The answer is no success.
    #[error("the server answered {0}")]
    Status(StatusCode),
    /// The answer is larger than permitted.
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// A redirect names no usable URL.
    #[error("the server redirects to something that is no URL of HTTP")]
    Location,
    /// Redirects that lead nowhere.
    #[error("the server redirects after {MAX_REQUESTS} requests")]
    Redirects,
}

/// A URL, and how it is fetched.
#[derive(Clone, Debug)]
pub struct Fetcher {
    url: Uri,
    headers: HeaderMap,
    proxies: ProxyEnvironment,
    resolver: Resolver,
    /// Loaded when it is first needed.
    tls: Option<ClientConfig>,
}

impl Fetcher {
    /// Fetches `url` with these headers. A user and password in the URL are sent, too.
    pub fn new(url: Uri, mut headers: HeaderMap, user_agent: HeaderValue, proxies: ProxyEnvironment) -> Self {
        headers.entry(USER_AGENT).or_insert(user_agent);
        if let Some(own) =
            url.authority().and_then(basic::credentials_of).as_ref().and_then(basic::authorization)
        {
            headers.entry(AUTHORIZATION).or_insert(own);
        }
        Self { url, headers, proxies, resolver: Resolver::default(), tls: None }
    }

    /// The URL with any credentials in it.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// The body of the answer, of at most `limit` bytes.
    pub async fn get(&mut self, limit: usize) -> Result<Bytes, FetchError> {
        timeout(TIMEOUT, self.follow(limit)).await.unwrap_or(Err(FetchError::Timeout))
    }

    async fn follow(&mut self, limit: usize) -> Result<Bytes, FetchError> {
        let (mut url, mut headers) = (self.url.clone(), self.headers.clone());
        for _ in 0..MAX_REQUESTS {
            let answer = self.request(&url, headers.clone()).await?;
            let next = match answer.status() {
                StatusCode::OK => return read(answer.into_body(), limit).await,
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => answer.headers().get(LOCATION),
                _ => None,
            };
            let Some(next) = next else { return Err(FetchError::Status(answer.status())) };
            let next = next.to_str().ok().and_then(|next| resolve(&url, next)).ok_or(FetchError::Location)?;
            if !is_within(&self.url, &next) {
                SENSITIVE.iter().for_each(|name| drop(headers.remove(name)));
            }
            url = next;
        }
        Err(FetchError::Redirects)
    }

    async fn request(&mut self, url: &Uri, headers: HeaderMap) -> Result<Response<Incoming>, FetchError> {
        let proxy =
            self.proxies.proxy(url).map_err(|(variable, error)| FetchError::Proxy(variable, error))?;
        let tls = self.tls(url, proxy.as_ref()).await?;
        let dialer = ProxyDialer::new(self.resolver.connector(), proxy.as_ref(), &tls);
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions();
        // A connection for each request: they are rare, and none can be dead.
        let client = Client::builder(TokioExecutor::new()).build(connector.wrap_connector(dialer));
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = without_credentials(url);
        *request.headers_mut() = headers;
        client.request(request).await.map_err(FetchError::Request)
    }

    /// Without TLS to a server or proxy, the authorities of the system do not matter: a host may have none.
    async fn tls(&mut self, url: &Uri, proxy: Option<&Proxy>) -> Result<ClientConfig, FetchError> {
        if url.scheme() != Some(&Scheme::HTTPS) && proxy.is_none() {
            return client_config(Trust::Authorities(&[]), None).map_err(FetchError::Trust);
        }
        if let Some(known) = &self.tls {
            return Ok(known.clone());
        }
        let loaded = file_work(|| client_config(Trust::System, None)).await.map_err(|_| FetchError::Load)?;
        Ok(self.tls.insert(loaded.map_err(FetchError::Trust)?).clone())
    }
}

async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, FetchError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(FetchError::Body)?.into_data() else { continue };
        if read.len() + data.len() > limit {
            return Err(FetchError::TooLarge(limit));
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

/// Servers get credentials in a header only.
fn without_credentials(url: &Uri) -> Uri {
    let mut parts = url.clone().into_parts();
    let plain = parts.authority.as_ref().and_then(|own| own.as_str().rsplit_once('@')?.1.parse().ok());
    parts.authority = plain.or(parts.authority);
    Uri::from_parts(parts).unwrap_or_else(|_| url.clone())
}

/// The URL that a redirect from `url` names.
fn resolve(url: &Uri, location: &str) -> Option<Uri> {
    HttpUrl::parse(&url.to_string()).ok()?.join(location).ok()?.to_string().parse().ok()
}

/// Whether `other` is at the host of `url` or a subdomain of it.
fn is_within(url: &Uri, other: &Uri) -> bool {
    let (own, other) = (url.host().unwrap_or_default(), other.host().unwrap_or_default());
    own.eq_ignore_ascii_case(other) || other.to_lowercase().ends_with(&format!(".{}", own.to_lowercase()))
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
