//! Metrics of probes, with upstream's names, labels and buckets (its endpoint `/metrics/probes`).

use std::time::Duration;

use hostlet_base::PodRef;
use hostlet_pod::ProbeKind;
use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::schedule::Run;
use super::state::Verdict;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    probe_type: &'static str,
    container: String,
    pod: String,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    probe_type: &'static str,
    result: &'static str,
    container: String,
    pod: String,
    namespace: String,
    pod_uid: String,
}

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ProbeMetrics {
    results: Family<ResultLabels, Counter>,
    duration: Family<Labels, Histogram>,
}

impl Default for ProbeMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DEFAULT_BUCKETS);
        Self { results: Family::default(), duration: Family::new_with_constructor(histogram) }
    }
}

const RESULTS: [&str; 3] = ["successful", "failed", "unknown"];

fn of_result(kind: ProbeKind, result: &'static str, pod: &PodRef, container: &str) -> ResultLabels {
    ResultLabels {
        probe_type: kind.as_str(),
        result,
        container: container.to_owned(),
        pod: pod.name.to_string(),
        namespace: pod.namespace.to_string(),
        pod_uid: pod.uid.to_string(),
    }
}

fn of_duration(kind: ProbeKind, pod: &PodRef, container: &str) -> Labels {
    Labels {
        probe_type: kind.as_str(),
        container: container.to_owned(),
        pod: pod.name.to_string(),
        namespace: pod.namespace.to_string(),
    }
}

impl ProbeMetrics {
    /// Registers them.
    pub(crate) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "prober_probe",
            "Cumulative number of a liveness, readiness or startup probe for a container by result",
            self.results.clone(),
        );
        metrics.register(
            "prober_probe_duration_seconds",
            "Duration in seconds for a probe response",
            self.duration.clone(),
        );
    }

    /// Counts a run with a verdict. Only successes are timed, as upstream.
    pub(super) fn finished(&self, run: &Run, verdict: Verdict, took: Duration) {
        let (pod, container) = (&run.pod.reference, run.container.name.as_str());
        let result = match verdict {
            Verdict::Success => "successful",
            Verdict::Failure => "failed",
        };
        self.results.get_or_create(&of_result(run.kind, result, pod, container)).inc();
        if verdict == Verdict::Success {
            self.duration.get_or_create(&of_duration(run.kind, pod, container)).observe(took.as_secs_f64());
        }
    }

    /// Forgets a pod's containers.
    pub(super) fn forget<'c>(&self, pod: &PodRef, containers: impl Iterator<Item = &'c str>) {
        for container in containers {
            for kind in ProbeKind::ALL {
                for result in RESULTS {
                    self.results.remove(&of_result(kind, result, pod, container));
                }
                self.duration.remove(&of_duration(kind, pod, container));
            }
        }
    }
}
