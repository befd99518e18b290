//! Makes TCP connections to a server, directly or through a proxy. The server's TLS is made on top of it.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt};

use super::address::{Proxy, Scheme};
use crate::http::resolver::TcpConnector;

/// A connection to the server, or to the proxy with TLS of its own.
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection could not be made through the proxy.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} makes no connection")]
struct ProxyFailed {
    proxy: String,
    source: BoxError,
}

/// Makes connections.
#[derive(Clone)]
pub struct ProxyDialer(Way);

#[derive(Clone)]
enum Way {
    Direct(TcpConnector),
    Http(Tunnel<TcpConnector>, String),
    Https(Tunnel<HttpsConnector<TcpConnector>>, String),
    Socks5(SocksV5<TcpConnector>, String),
}

impl ProxyDialer {
    /// Dials with `tcp`. TLS to a proxy trusts whom `tls` trusts, as with client-go.
    pub fn new(tcp: TcpConnector, proxy: Option<&Proxy>, tls: &ClientConfig) -> Self {
        let Some(proxy) = proxy else { return Self(Way::Direct(tcp)) };
        let name = proxy.to_string();
        Self(match proxy.scheme {
            Scheme::Http => Way::Http(tunnel(proxy, tcp), name),
            Scheme::Https => {
                let tls = HttpsConnectorBuilder::new().with_tls_config(tls.clone());
                // A CONNECT request is HTTP/1.
                Way::Https(tunnel(proxy, tls.https_only().enable_http1().wrap_connector(tcp)), name)
            }
            Scheme::Socks5 => {
                let socks = SocksV5::new(proxy.uri.clone(), tcp);
                Way::Socks5(
                    match proxy.credentials() {
                        Some((name, password)) => socks.with_auth(name, password),
                        None => socks,
                    },
                    name,
                )
            }
        })
    }
}

fn tunnel<C>(proxy: &Proxy, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri.clone(), connector);
    match proxy.authorization() {
        Some(authorization) => tunnel.with_auth(authorization),
        None => tunnel,
    }
}

impl Service<Uri> for ProxyDialer {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let failed = |proxy: String| move |source: BoxError| ProxyFailed { proxy, source };
        match self.0.clone() {
            Way::Direct(tcp) => Box::pin(async move {
                let stream = tcp.oneshot(server).await?;
                Ok(MaybeHttpsStream::Http(stream))
            }),
            Way::Http(tunnel, proxy) => Box::pin(async move {
                let stream = tunnel.oneshot(server).await.map_err(|error| failed(proxy)(error.into()))?;
                Ok(MaybeHttpsStream::Http(stream))
            }),
            Way::Https(tunnel, proxy) => Box::pin(async move {
                Ok(tunnel.oneshot(server).await.map_err(|error| failed(proxy)(error.into()))?)
            }),
            Way::Socks5(socks, proxy) => Box::pin(async move {
                let stream = socks.oneshot(server).await.map_err(|error| failed(proxy)(error.into()))?;
                Ok(MaybeHttpsStream::Http(stream))
            }),
        }
    }
}
