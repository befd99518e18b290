//! Metrics of credential providers, which are the stock kubelet's.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};

type Label = [(&'static str, String); 1];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct PluginMetrics {
    errors: Family<Label, Counter>,
    duration: Family<Label, Histogram, fn() -> Histogram>,
}

fn histogram() -> Histogram {
    Histogram::new(DEFAULT_BUCKETS)
}

impl Default for PluginMetrics {
    fn default() -> Self {
        Self { errors: Family::default(), duration: Family::new_with_constructor(histogram) }
    }
}

impl PluginMetrics {
    /// Counts a run of the provider `name`.
    pub(super) fn ran(&self, name: &str, took: Duration, has_failed: bool) {
        let label = [("plugin_name", name.to_owned())];
        self.duration.get_or_create(&label).observe(took.as_secs_f64());
        if has_failed {
            self.errors.get_or_create(&label).inc();
        }
    }

    /// Registers the metrics of providers whose configuration has this digest.
    pub(super) fn register(&self, digest: &str, metrics: &Metrics) {
        metrics.register(
            "kubelet_credential_provider_plugin_errors",
            "Number of errors from credential provider plugin",
            self.errors.clone(),
        );
        metrics.register(
            "kubelet_credential_provider_plugin_duration",
            "Duration of execution in seconds for credential provider plugin",
            self.duration.clone(),
        );
        let info = Family::<Label, Gauge>::default();
        info.get_or_create(&[("hash", digest.to_owned())]).set(1);
        metrics.register(
            "kubelet_credential_provider_config_info",
            "Information about the last applied credential provider configuration with hash as label",
            info,
        );
    }
}
