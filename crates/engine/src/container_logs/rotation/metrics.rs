//! Metrics of log rotation. The stock kubelet has none.

use prometheus_client::metrics::counter::Counter;

use hostlet_telemetry::Metrics;

/// The rotations so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct RotationMetrics {
    pub(super) rotated: Counter,
    pub(super) failed: Counter,
}

impl RotationMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "hostlet_container_log_rotations",
            "Number of rotations of container logs",
            self.rotated.clone(),
        );
        metrics.register(
            "hostlet_container_log_rotation_errors",
            "Number of failed rotations of container logs, including those whose older files could not be compressed",
            self.failed.clone(),
        );
    }
}
