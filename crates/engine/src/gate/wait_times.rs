//! How long starts or stops have waited at a gate.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use hostlet_telemetry::DEFAULT_BUCKETS;

/// The waits so far.
#[derive(Clone, Debug)]
pub(super) struct WaitTimes(Histogram);

impl Default for WaitTimes {
    fn default() -> Self {
        Self(Histogram::new(DEFAULT_BUCKETS))
    }
}

impl WaitTimes {
    pub(super) fn observe(&self, waited: Duration) {
        self.0.observe(waited.as_secs_f64());
    }

    pub(super) fn histogram(&self) -> Histogram {
        self.0.clone()
    }
}
