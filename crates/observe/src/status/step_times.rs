//! How long the steps of the work on pods take, over all pods.

use std::time::Duration;

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::timeline::TimelineStep;

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

    /// Observes a step that ended.
    pub(super) fn ended(&self, step: TimelineStep, took: Duration) {
        if let Some(name) = label(step) {
            self.0.get_or_create(&[("step", name)]).observe(took.as_secs_f64());
        }
    }
}

/// The name of a step that is work; waits for a restart and instantaneous steps are none.
pub(super) fn label(step: TimelineStep) -> Option<&'static str> {
    match step {
        TimelineStep::QueuedStart => Some("turn"),
        TimelineStep::Volumes => Some("volumes"),
        TimelineStep::Sandbox => Some("sandbox"),
        TimelineStep::Pull => Some("pull"),
        TimelineStep::PullVolume => Some("pull-volume"),
        TimelineStep::Create => Some("create"),
        TimelineStep::Start => Some("start"),
        TimelineStep::PostStart => Some("post-start"),
        TimelineStep::Stop => Some("stop"),
        TimelineStep::StopSandbox => Some("stop-sandbox"),
        TimelineStep::CleanUp => Some("clean-up"),
        TimelineStep::BackOff
        | TimelineStep::Seen
        | TimelineStep::Admitted
        | TimelineStep::Rejected
        | TimelineStep::Network
        | TimelineStep::Running
        | TimelineStep::Probed
        | TimelineStep::Ended
        | TimelineStep::Failed
        | TimelineStep::Shutdown
        | TimelineStep::Evicted
        | TimelineStep::Deadline
        | TimelineStep::Killing
        | TimelineStep::PreStop
        | TimelineStep::Stopped
        | TimelineStep::Removed => None,
    }
}
