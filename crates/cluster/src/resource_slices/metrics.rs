//! Metrics of the writes to the API server.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use hostlet_telemetry::Metrics;

type Labels = [(&'static str, String); 3];

/// Counts the writes. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteMetrics(Family<Labels, Counter>);

impl WriteMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "hostlet_dra_resource_slice_writes",
            "Writes of ResourceSlices to the API server by driver, verb and result",
            self.0.clone(),
        );
    }

    pub(super) fn count(&self, driver: &str, verb: &'static str, has_failed: bool) {
        let result = if has_failed { "error" } else { "success" };
        let labels =
            [("driver_name", driver.to_owned()), ("verb", verb.to_owned()), ("result", result.to_owned())];
        self.0.get_or_create(&labels).inc();
    }
}
