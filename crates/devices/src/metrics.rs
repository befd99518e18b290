//! The metrics of device plugins, with upstream's names and labels.

use std::time::Duration;

use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

type Labels = [(&'static str, String); 1];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMetrics {
    registrations: Family<Labels, Counter>,
    allocations: Family<Labels, Histogram>,
}

impl Default for DeviceMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DEFAULT_BUCKETS);
        Self { registrations: Family::default(), allocations: Family::new_with_constructor(histogram) }
    }
}

impl DeviceMetrics {
    pub(crate) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_device_plugin_registration",
            "Cumulative number of device plugin registrations. Broken down by resource name",
            self.registrations.clone(),
        );
        metrics.register(
            "kubelet_device_plugin_alloc_duration_seconds",
            "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name",
            self.allocations.clone(),
        );
    }

    /// A plugin asked to be registered.
    pub(crate) fn registered(&self, resource: &str) {
        self.registrations.get_or_create(&[("resource_name", resource.to_owned())]).inc();
    }

    /// A plugin answered `Allocate`.
    pub(crate) fn allocated(&self, resource: &str, took: Duration) {
        let labels = [("resource_name", resource.to_owned())];
        self.allocations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
