//! Metrics of claims, with upstream's names, labels and buckets. Counts only what it is given.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_telemetry::{Metrics, Reading};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::ledger::{Ledger, Operation};

/// The number of upper bounds.
const BUCKETS: u16 = 15;
/// The first and the last upper bound, seconds.
const RANGE: (f64, f64) = (0.1, 40.0);

/// The driver that stands for all.
const ANY_DRIVER: &str = "<any>";

/// Upper bounds, seconds: growing by one factor (`ExponentialBucketsRange`).
pub(crate) fn buckets() -> impl Iterator<Item = f64> {
    let factor = (RANGE.1 / RANGE.0).powf(1.0 / f64::from(BUCKETS - 1));
    (0..BUCKETS).map(move |power| RANGE.0 * factor.powi(i32::from(power)))
}

type OperationLabels = [(&'static str, &'static str); 2];

type DriverLabel = [(&'static str, String); 1];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ClaimMetrics {
    operations: Family<OperationLabels, Histogram>,
    prepare_skips: Family<DriverLabel, Counter>,
    unprepare_skips: Family<DriverLabel, Counter>,
}

impl Default for ClaimMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(buckets());
        Self {
            operations: Family::new_with_constructor(histogram),
            prepare_skips: Family::default(),
            unprepare_skips: Family::default(),
        }
    }
}

impl ClaimMetrics {
    /// Registers them. `ledger` reads the claims.
    pub(crate) fn register(
        &self,
        metrics: &Metrics,
        ledger: impl Fn() -> Vec<Reading> + Send + Sync + 'static,
    ) {
        metrics.register(
            "dra_operations_duration_seconds",
            "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod when the pod starts or stops. Identified by the name of the operation (PrepareResources or UnprepareResources) and separated by the success of the operation. The number of failed operations is provided through the histogram's overall count.",
            self.operations.clone(),
        );
        metrics.register(
            "dra_node_prepare_skips",
            "Cumulative number of times NodePrepareResources gRPC calls were skipped due to SkipNodeOperations",
            self.prepare_skips.clone(),
        );
        metrics.register(
            "dra_node_unprepare_skips",
            "Cumulative number of times NodeUnprepareResources gRPC calls were skipped due to SkipNodeOperations",
            self.unprepare_skips.clone(),
        );
        metrics.register_gauge(
            "dra_resource_claims_in_use",
            "The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) and across all drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the total number of in-use ResourceClaims because the same ResourceClaim might use devices from different drivers. Instead, use the count for the <any> driver_name.",
            ledger,
        );
    }

    /// A driver was not called about a claim, because its devices skip that.
    pub(crate) fn skipped(&self, operation: Operation, driver: &str) {
        let counters = match operation {
            Operation::Prepare => &self.prepare_skips,
            Operation::Unprepare => &self.unprepare_skips,
        };
        counters.get_or_create(&[("driver_name", driver.to_owned())]).inc();
    }

    /// Records an operation on all claims of a pod.
    pub(crate) fn ended(&self, operation: Operation, is_error: bool, took: Duration) {
        let name = match operation {
            Operation::Prepare => "PrepareResources",
            Operation::Unprepare => "UnprepareResources",
        };
        let labels = [("operation_name", name), ("is_error", if is_error { "true" } else { "false" })];
        self.operations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// The prepared claims by driver.
pub(crate) fn in_use(ledger: &Ledger) -> Vec<Reading> {
    let prepared = ledger.claims().values().filter(|claim| claim.is_prepared());
    let mut counts = BTreeMap::from([(ANY_DRIVER, 0_u64)]);
    for claim in prepared {
        for driver in std::iter::once(ANY_DRIVER).chain(claim.parts.keys().map(String::as_str)) {
            *counts.entry(driver).or_default() += 1;
        }
    }
    counts.into_iter().map(|(driver, count)| (vec![("driver_name", driver.to_owned())], count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_upstreams() {
        let buckets: Vec<f64> = buckets().collect();
        assert_eq!(buckets.len(), 15);
        assert!((buckets[0] - 0.1).abs() < 1e-9 && (buckets[14] - 40.0).abs() < 1e-9, "{buckets:?}");
        assert!((buckets[1] - 0.15341).abs() < 1e-4, "{buckets:?}");
    }
}
