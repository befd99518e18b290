//! The socket of the API.

use std::path::PathBuf;
use std::sync::Arc;

use hostlet_proto::pod_resources::pod_resources_lister_server::PodResourcesListerServer;
use hostlet_proto::pod_resources_alpha::pod_resources_lister_server::PodResourcesListerServer as OldListerServer;
use hostlet_telemetry::Metrics;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::metrics::ApiMetrics;
use super::service::Lister;
use super::service_alpha::OldLister;
use super::source::PodResourcesSource;
use crate::grpc::{RateLimit, serve_socket};

/// Upstream's name of the socket.
const SOCKET: &str = "kubelet.sock";

/// Where the socket is.
#[derive(Clone, Debug)]
pub struct PodResourcesSettings {
    /// The directory of the socket: `pod-resources` in the kubelet's root.
    pub dir: PathBuf,
}

/// The server.
pub struct PodResourcesServer {
    settings: PodResourcesSettings,
    lister: Lister,
}

impl PodResourcesServer {
    /// A server that tells of what `source` knows.
    pub fn new(
        settings: PodResourcesSettings,
        source: Arc<dyn PodResourcesSource>,
        metrics: &Metrics,
    ) -> Self {
        let counts = ApiMetrics::default();
        counts.register(metrics);
        let limit = RateLimit::new(Instant::now());
        Self { settings, lister: Lister { source, limit, metrics: counts } }
    }

    /// Serves until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let router = || {
            Server::builder()
                .add_service(PodResourcesListerServer::new(self.lister.clone()))
                .add_service(OldListerServer::new(OldLister(self.lister.clone())))
        };
        serve_socket("pod resources API", &self.settings.dir.join(SOCKET), router, cancel).await;
    }
}
