//! Metrics of evictions. The names are upstream's, except where only hostlet has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::node::Signal;
use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics, PlainCounter};
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

type EvictionSignal = [(&'static str, &'static str); 1];

/// The evictions, and what could not be observed. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct EvictionMetrics {
    evictions: Family<EvictionSignal, PlainCounter>,
    stats_age: Family<EvictionSignal, Histogram>,
    unreadable: Arc<Mutex<BTreeMap<Signal, u64>>>,
}

impl Default for EvictionMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DEFAULT_BUCKETS);
        Self {
            evictions: Family::default(),
            stats_age: Family::new_with_constructor(histogram),
            unreadable: Arc::default(),
        }
    }
}

fn label(signal: &'static str) -> EvictionSignal {
    [("eviction_signal", signal)]
}

impl EvictionMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_evictions",
            "Cumulative number of pod evictions by eviction signal",
            self.evictions.clone(),
        );
        metrics.register(
            "kubelet_eviction_stats_age_seconds",
            "Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
            self.stats_age.clone(),
        );
        let unreadable = self.unreadable.clone();
        metrics.register_gauge(
            "hostlet_eviction_signal_unreadable",
            "Whether an eviction signal could not be read at the last look",
            move || {
                let unreadable = unreadable.lock();
                let reading = |(signal, value): (&Signal, &u64)| {
                    (vec![("eviction_signal", signal.name().to_owned())], *value)
                };
                unreadable.iter().map(reading).collect()
            },
        );
    }

    pub(super) fn evicted(&self, signal: &'static str) {
        self.evictions.get_or_create(&label(signal)).inc();
    }

    /// A pod is evicted because of what was observed of this signal then.
    pub(super) fn decided(&self, signal: Signal, observed_at: Timestamp, now: Timestamp) {
        let age = now.duration_since(observed_at).as_secs_f64().max(0.0);
        self.stats_age.get_or_create(&label(signal.name())).observe(age);
    }

    /// Which signals could be read now, and which could not.
    pub(super) fn looked(&self, signals: impl Iterator<Item = (Signal, bool)>) {
        *self.unreadable.lock() = signals.map(|(signal, is_read)| (signal, u64::from(!is_read))).collect();
    }
}
