//! The metric of calls to drivers, with upstream's name, labels and buckets (`dra_grpc_operations_duration_seconds`).

use std::time::Duration;

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::buckets;

type Labels = [(&'static str, String); 3];

/// The metric. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct CallMetrics(Family<Labels, Histogram>);

impl Default for CallMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(buckets());
        Self(Family::new_with_constructor(histogram))
    }
}

impl CallMetrics {
    pub(crate) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "dra_grpc_operations_duration_seconds",
            "Duration in seconds of the DRA gRPC operations",
            self.0.clone(),
        );
    }

    /// Records a call that ended with this code, whose name is that of gRPC for Go.
    pub(super) fn ended(&self, driver: &str, method: &str, code: &'static str, took: Duration) {
        let labels = [
            ("driver_name", driver.to_owned()),
            ("method_name", method.to_owned()),
            ("grpc_status_code", code.to_owned()),
        ];
        self.0.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
