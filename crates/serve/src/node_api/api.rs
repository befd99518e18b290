//! The node's API on its ports.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::listen::{self, ListenError, Transport};
use super::metrics::RequestMetrics;
use super::routes::{EndpointDeps, read_only, secured};

/// The open ports, before anything is served on them.
#[derive(Debug)]
pub struct ApiListeners {
    secure: Option<TcpListener>,
    read_only: Option<TcpListener>,
}

impl ApiListeners {
    /// Opens the port of the API (`address`, `port`) and the one without credentials (`readOnlyPort`), as far as they are configured.
    pub fn bind(secure: Option<SocketAddr>, read_only: Option<SocketAddr>) -> Result<Self, ListenError> {
        let secure = secure.map(|address| listen::bind(address, "port", "set another port"));
        let read_only = read_only
            .map(|address| listen::bind(address, "readOnlyPort", "set another readOnlyPort, or 0 for none"));
        Ok(Self { secure: secure.transpose()?, read_only: read_only.transpose()? })
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.secure.is_none() && self.read_only.is_none()
    }
}

/// The node's API.
pub struct NodeApiServer {
    /// What the endpoints need.
    pub endpoints: EndpointDeps,
    /// Who may use them.
    pub guard: Guard,
    /// Whether there are those of `enableDebuggingHandlers`.
    pub has_debugging: bool,
    /// The current TLS configuration.
    pub tls: watch::Receiver<Arc<ServerConfig>>,
    /// Counts and times requests, by endpoint.
    pub metrics: RequestMetrics,
}

impl NodeApiServer {
    /// Serves until cancelled. Dropping it closes the connections.
    pub async fn run(self, listeners: ApiListeners, cancel: CancellationToken) {
        let ApiListeners { secure, read_only: plain } = listeners;
        let readers = read_only(&self.endpoints, self.metrics.clone());
        let app = secured(&self.endpoints, self.guard, self.has_debugging, self.metrics);
        let transport = Transport::Tls(self.tls);
        tokio::join!(
            serve(secure, &transport, app, &cancel),
            serve(plain, &Transport::Plain, readers, &cancel)
        );
    }
}

async fn serve(
    listener: Option<TcpListener>,
    transport: &Transport,
    app: Router,
    cancel: &CancellationToken,
) {
    if let Some(listener) = listener {
        listen::serve(listener, transport, app, cancel).await;
    }
}
