//! The metric of calls to drivers, with upstream's name, labels and buckets (`csi_operations_seconds`).

use std::time::Duration;

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds, seconds.
const BUCKETS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

type Labels = [(&'static str, String); 4];

/// The metric. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct CallMetrics(Family<Labels, Histogram>);

impl Default for CallMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self(Family::new_with_constructor(histogram))
    }
}

impl CallMetrics {
    pub(crate) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "csi_operations_seconds",
            "Container Storage Interface operation duration with gRPC error code status total",
            self.0.clone(),
        );
    }

    /// Records a call that ended with this code, whose name is that of gRPC for Go. `is_migrated` is whether it is about a volume of a type that
    /// Kubernetes once mounted itself; as upstream, calls that take a volume back do not say so.
    pub(super) fn ended(
        &self,
        driver: &str,
        method: &str,
        code: &'static str,
        is_migrated: bool,
        took: Duration,
    ) {
        let labels = [
            ("driver_name", driver.to_owned()),
            ("grpc_status_code", code.to_owned()),
            ("method_name", method.to_owned()),
            ("migrated", is_migrated.to_string()),
        ];
        self.0.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
