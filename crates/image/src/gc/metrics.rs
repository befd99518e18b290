//! The metric of removed images, which is the stock kubelet's.

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Why an image was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalReason {
    /// It was unused for too long.
    Age,
    /// Its space was needed, or asked for.
    Space,
}

impl RemovalReason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Space => "space",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct GcMetrics {
    removed: Family<[(&'static str, &'static str); 1], Counter>,
}

impl GcMetrics {
    pub(super) fn removed(&self, reason: RemovalReason) {
        self.removed.get_or_create(&[("reason", reason.as_str())]).inc();
    }

    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_image_garbage_collected",
            "Total number of images garbage collected by the kubelet, whether through disk usage or image age",
            self.removed.clone(),
        );
    }
}
