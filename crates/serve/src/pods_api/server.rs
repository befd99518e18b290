//! The socket of the API. Serves for as long as the daemon runs; a socket that cannot be opened is tried again.

use std::path::PathBuf;

use hostlet_observe::status::PodDirectory;
use hostlet_proto::pods_api::pods_server::PodsServer;
use hostlet_telemetry::Metrics;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::metrics::ApiMetrics;
use super::service::{PodsService, Readiness};
use crate::grpc::{RateLimit, serve_socket};

/// Upstream's name of the socket.
const SOCKET: &str = "pods-api.sock";

/// Where the socket is.
#[derive(Clone, Debug)]
pub struct PodsApiSettings {
    /// The directory of the socket, which is created: `pods-api` in the kubelet's root.
    pub dir: PathBuf,
}

/// The server.
pub struct PodsApiServer {
    settings: PodsApiSettings,
    service: PodsService,
}

impl PodsApiServer {
    /// A server that tells of these pods once all sources are read.
    pub fn new(
        settings: PodsApiSettings,
        pods: PodDirectory,
        is_ready: Readiness,
        metrics: &Metrics,
    ) -> Self {
        let counts = ApiMetrics::default();
        counts.register(metrics);
        let limit = RateLimit::new(Instant::now());
        Self { settings, service: PodsService { pods, is_ready, limit, metrics: counts } }
    }

    /// Serves until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let router = || Server::builder().add_service(PodsServer::new(self.service.clone()));
        serve_socket("Pods API", &self.settings.dir.join(SOCKET), router, cancel).await;
    }
}
