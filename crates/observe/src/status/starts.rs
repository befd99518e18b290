//! Measures how long pods take to run, by comparing a status with the one before. The name and buckets are upstream's.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_pod::{AdmittedPod, PodPhase};
use hostlet_telemetry::{Metrics, POD_START_BUCKETS};

/// The durations. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct StartTimes(Histogram);

impl Default for StartTimes {
    fn default() -> Self {
        Self(Histogram::new(POD_START_BUCKETS))
    }
}

impl StartTimes {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_pod_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
            self.0.clone(),
        );
    }

    /// Observes a pod that runs since the status `before`.
    pub(super) fn observe(&self, pod: &AdmittedPod, before: &PodStatus, now: &PodStatus, at: Timestamp) {
        let is = |status: &PodStatus, phase: PodPhase| status.phase.as_deref() == Some(phase.as_str());
        let Some(seen) = pod.seen_at else { return };
        if is(before, PodPhase::Pending) && is(now, PodPhase::Running) {
            self.0.observe(Duration::try_from(at.duration_since(seen)).unwrap_or_default().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::CONFIG_SEEN_ANNOTATION;
    use hostlet_pod::testing::pod;

    #[test]
    fn a_pod_counts_once_from_the_time_at_which_it_was_seen() {
        let (metrics, times) = (Metrics::default(), StartTimes::default());
        times.register(&metrics);
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut web = pod("web", "u1", "Always", &["c"]);
        let annotations = web.metadata.annotations.get_or_insert_default();
        annotations.insert(CONFIG_SEEN_ANNOTATION.to_owned(), at(10).to_string());
        let web = AdmittedPod::new(web);
        let phase = |name: &str| PodStatus { phase: Some(name.to_owned()), ..PodStatus::default() };
        let (none, pending, running) = (PodStatus::default(), phase("Pending"), phase("Running"));
        // One that an earlier daemon started, then the start, then an update.
        times.observe(&web, &none, &running, at(11));
        times.observe(&web, &pending, &running, at(13));
        times.observe(&web, &running, &running, at(14));
        let text = metrics.encode();
        assert!(text.contains("\nkubelet_pod_start_duration_seconds_sum 3.0\n"), "{text}");
        assert!(text.contains("\nkubelet_pod_start_duration_seconds_bucket{le=\"2\"} 0\n"), "{text}");
        assert!(text.contains("\nkubelet_pod_start_duration_seconds_bucket{le=\"3\"} 1\n"), "{text}");
    }
}
