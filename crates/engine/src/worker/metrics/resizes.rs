//! Metrics of resizes. The name is upstream's.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_telemetry::Metrics;

type Label = [(&'static str, &'static str); 1];

/// How long resizes took. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::worker) struct ResizeTimes(Family<Label, Histogram, fn() -> Histogram>);

impl Default for ResizeTimes {
    fn default() -> Self {
        Self(Family::new_with_constructor(milliseconds))
    }
}

fn milliseconds() -> Histogram {
    Histogram::new([10.0, 50.0, 100.0, 500.0, 1e3, 2e3, 5e3, 10e3, 20e3, 30e3, 60e3, 120e3, 300e3, 600e3])
}

impl ResizeTimes {
    /// Registers them.
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_pod_resize_duration_milliseconds",
            "Duration in milliseconds to actuate a pod resize",
            self.0.clone(),
        );
    }

    /// Observes an attempt to enforce the allocated resources of a pod.
    pub(in crate::worker) fn observe(&self, took: Duration, is_done: bool) {
        let success = if is_done { "true" } else { "false" };
        self.0.get_or_create(&[("success", success)]).observe(took.as_secs_f64() * 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_told_apart() {
        let (metrics, times) = (Metrics::default(), ResizeTimes::default());
        times.register(&metrics);
        times.observe(Duration::from_millis(20), true);
        times.observe(Duration::from_secs(3), false);
        let text = metrics.encode();
        for line in [
            "kubelet_pod_resize_duration_milliseconds_sum{success=\"true\"} 20.0\n",
            "kubelet_pod_resize_duration_milliseconds_bucket{le=\"50\",success=\"true\"} 1\n",
            "kubelet_pod_resize_duration_milliseconds_bucket{le=\"2000\",success=\"false\"} 0\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
