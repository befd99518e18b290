//! Metrics of evictions. The names are upstream's.

use hostlet_telemetry::{Metrics, PlainCounter};
use prometheus_client::metrics::family::Family;

use super::plan::Signal;

type EvictionSignal = [(&'static str, &'static str); 1];

/// The number of evictions. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct EvictionMetrics {
    evictions: Family<EvictionSignal, PlainCounter>,
}

impl EvictionMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_evictions",
            "Cumulative number of pod evictions by eviction signal",
            self.evictions.clone(),
        );
    }

    pub(super) fn evicted(&self, signal: Signal) {
        self.evictions.get_or_create(&[("eviction_signal", signal.as_str())]).inc();
    }
}
