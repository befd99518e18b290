//! What the certificates of all pods share: who requests them, the version of the API, their numbers, and one place to make a key.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_pod::PodEvents;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use super::count::CertificateCounts;
use crate::api::pause;
use crate::api_objects::certificates_api::CertificatesResource;

/// Pause before a request is followed again in another version of the API.
const OTHER_VERSION: Duration = Duration::from_secs(5);

/// What certificates are requested with.
pub struct CertificateDeps {
    /// The name of this node.
    pub node_name: String,
    /// Its Node object.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Recorder of pod events.
    pub events: PodEvents,
    /// The clock by which certificates are renewed.
    pub clock: WallClock,
}

/// What the certificates of all pods share.
pub(in crate::api_objects) struct Issuing {
    pub(super) deps: CertificateDeps,
    pub(super) resource: CertificatesResource,
    /// One key is made at a time.
    pub(super) key_work: Semaphore,
    pub(super) counts: CertificateCounts,
}

impl Issuing {
    pub(in crate::api_objects) fn new(deps: CertificateDeps) -> Self {
        Self {
            deps,
            resource: CertificatesResource::certificate_requests(),
            key_work: Semaphore::new(1),
            counts: CertificateCounts::default(),
        }
    }

    /// Adds upstream's metric.
    pub(in crate::api_objects) fn register(&self, metrics: &Metrics) {
        self.counts.register(metrics, self.deps.clock.clone());
    }

    /// The UID of this node, once it is registered.
    pub(super) fn node_uid(&self) -> Option<String> {
        self.deps.node.borrow().as_ref().and_then(|node| node.metadata.uid.clone())
    }

    /// Waits before another version of the API is tried.
    pub(super) async fn pause(&self) {
        sleep(pause(OTHER_VERSION, Duration::ZERO, rand::random())).await;
    }
}
