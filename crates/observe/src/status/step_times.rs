//! How long the steps of the work on pods take, over all pods.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use hostlet_telemetry::Metrics;

/// The step's name.
type Label = [(&'static str, &'static str); 1];

/// The durations. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct StepTimes(Family<Label, Histogram, fn() -> Histogram>);

impl Default for StepTimes {
    fn default() -> Self {
        // The buckets of runtime calls, which most steps are.
        Self(Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 2.5, 14))))
    }
}

impl StepTimes {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "hostlet_pod_step_duration_seconds",
            "Duration in seconds of a step of the work on a pod, by the step's name in its timeline",
            self.0.clone(),
        );
    }

    /// Observes a step that ended, by its name.
    pub(super) fn ended(&self, step: &'static str, took: Duration) {
        self.0.get_or_create(&[("step", step)]).observe(took.as_secs_f64());
    }
}
