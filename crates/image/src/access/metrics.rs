//! Metrics of the checks, which are the stock kubelet's.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use hostlet_telemetry::Metrics;

#[derive(Clone, Debug, Default)]
pub(super) struct AccessMetrics {
    checks: Family<[(&'static str, &'static str); 1], Counter>,
    requests: Family<[(&'static str, String); 3], Counter>,
}

impl AccessMetrics {
    pub(super) fn checked(&self, result: &'static str) {
        self.checks.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn requested(&self, policy: &str, is_present: Option<bool>, needs_pull: Option<bool>) {
        let text =
            |known: Option<bool>| known.map_or_else(|| "unknown".to_owned(), |known| known.to_string());
        let labels = [
            ("pull_policy", policy.to_lowercase()),
            ("present_locally", text(is_present)),
            ("pull_required", text(needs_pull)),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// Registers the metrics, with the number of pulls in progress and of records.
    pub(super) fn register(
        &self,
        metrics: &Metrics,
        intents: impl Fn() -> usize + Send + Sync + 'static,
        records: impl Fn() -> usize + Send + Sync + 'static,
    ) {
        metrics.register(
            "kubelet_imagemanager_image_mustpull_checks",
            "Counter for how many times kubelet checked whether credentials need to be re-verified to access an image",
            self.checks.clone(),
        );
        metrics.register(
            "kubelet_image_manager_ensure_image_requests",
            "Number of ensure-image requests processed by the kubelet",
            self.requests.clone(),
        );
        metrics.register_gauge(
            "kubelet_imagemanager_ondisk_pullintents",
            "Number of ImagePullIntents stored on disk.",
            move || vec![(Vec::new(), intents() as u64)],
        );
        metrics.register_gauge(
            "kubelet_imagemanager_ondisk_pulledrecords",
            "Number of ImagePulledRecords stored on disk.",
            move || vec![(Vec::new(), records() as u64)],
        );
    }
}
