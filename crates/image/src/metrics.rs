//! Metrics of pulls, which are the stock kubelet's.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_telemetry::Metrics;

/// Upstream's buckets, seconds.
const BUCKETS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0,
    2700.0, 3600.0,
];

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Upstream's labels for sizes of images above these numbers of bytes, the largest first.
const SIZES: [(u64, &str); 12] = [
    (100 * GIB, "GT100GB"),
    (60 * GIB, "60GB-100GB"),
    (40 * GIB, "40GB-60GB"),
    (30 * GIB, "30GB-40GB"),
    (20 * GIB, "20GB-30GB"),
    (10 * GIB, "10GB-20GB"),
    (5 * GIB, "5GB-10GB"),
    (GIB, "1GB-5GB"),
    (500 * MIB, "500MB-1GB"),
    (100 * MIB, "100MB-500MB"),
    (10 * MIB, "10MB-100MB"),
    (0, "0-10MB"),
];

type Label = [(&'static str, &'static str); 1];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct PullMetrics {
    durations: Family<Label, Histogram, fn() -> Histogram>,
}

impl Default for PullMetrics {
    fn default() -> Self {
        Self { durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)) }
    }
}

impl PullMetrics {
    /// Counts a pull of an image of `size` bytes that took `total`, including its wait in the queue.
    pub(super) fn pulled(&self, size: u64, total: Duration) {
        self.durations
            .get_or_create(&[("image_size_in_bytes", size_label(size))])
            .observe(total.as_secs_f64());
    }

    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_image_pull_duration_seconds",
            "Duration in seconds to pull an image",
            self.durations.clone(),
        );
    }
}

fn size_label(size: u64) -> &'static str {
    // The runtime did not say.
    SIZES.iter().find(|(above, _)| size > *above).map_or("N/A", |(_, label)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulls_are_counted_by_the_size_of_their_image() {
        let (metrics, pulls) = (Metrics::default(), PullMetrics::default());
        pulls.register(&metrics);
        for (size, label) in [
            (0, "N/A"),
            (1, "0-10MB"),
            (10 * MIB, "0-10MB"),
            (10 * MIB + 1, "10MB-100MB"),
            (GIB + 1, "1GB-5GB"),
            (u64::MAX, "GT100GB"),
        ] {
            assert_eq!(size_label(size), label);
            pulls.pulled(size, Duration::from_secs(7));
        }
        let text = metrics.encode();
        for line in [
            "kubelet_image_pull_duration_seconds_bucket{le=\"10\",image_size_in_bytes=\"0-10MB\"} 2\n",
            "kubelet_image_pull_duration_seconds_bucket{le=\"5\",image_size_in_bytes=\"0-10MB\"} 0\n",
            "kubelet_image_pull_duration_seconds_count{image_size_in_bytes=\"GT100GB\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
