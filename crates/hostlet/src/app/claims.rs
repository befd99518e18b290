//! The ResourceClaims of pods, and the DRA drivers that prepare them.

use std::path::Path;
use std::sync::Arc;

use hostlet_cluster::api_objects::ApiClaims;
use hostlet_cluster::resource_slices::Dra;
use hostlet_dra::{ClaimSource, Claims, ClaimsSettings, ClaimsTask, DraHandler, HealthTask, NoClaims};
use hostlet_telemetry::Metrics;

use super::cluster::Cluster;
use super::tasks::{Stage, Tasks};

/// The drivers and claims of this node.
pub(super) struct ClaimsSide {
    pub(super) drivers: DraHandler,
    pub(super) claims: Claims,
    task: ClaimsTask,
    health: HealthTask,
}

impl ClaimsSide {
    /// Reads what earlier daemons prepared. `boot` is the boot of the host, `slices` learns of all drivers.
    pub(super) fn new(
        root: &Path,
        boot: &str,
        cluster: Option<&Cluster>,
        slices: &Dra,
        metrics: &Metrics,
    ) -> Self {
        let drivers = DraHandler::new(Arc::new(slices.clone()));
        drivers.register(metrics);
        let source: Arc<dyn ClaimSource> = match cluster {
            Some(cluster) => Arc::new(ApiClaims::new(cluster.normal_client())),
            None => Arc::new(NoClaims),
        };
        let settings = ClaimsSettings { root: root.to_owned(), boot: boot.to_owned(), source };
        let (task, health, claims) = Claims::new(settings, &drivers, metrics);
        Self { drivers, claims, task, health }
    }

    /// Starts to call drivers.
    pub(super) fn spawn(self, tasks: &mut Tasks) {
        // Those that act wait until this host is known to be hostlet's.
        tasks.spawn(Stage::Pods, "claims", |cancel| self.task.run(cancel));
        tasks.spawn(Stage::Pods, "device health", |cancel| self.health.run(cancel));
    }
}
