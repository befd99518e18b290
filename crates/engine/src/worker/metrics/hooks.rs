//! Metrics of hooks. The names are upstream's.

use prometheus_client::metrics::counter::Counter;

use hostlet_telemetry::Metrics;

/// The metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::worker) struct HookMetrics {
    fallbacks: Counter,
    unfinished_pauses: Counter,
}

impl HookMetrics {
    /// Registers them.
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_lifecycle_handler_http_fallbacks",
            "The number of times lifecycle handlers successfully fell back to http from https",
            self.fallbacks.clone(),
        );
        metrics.register(
            "kubelet_sleep_action_terminated_early",
            "The number of times lifecycle sleep handler got terminated before it finishes",
            self.unfinished_pauses.clone(),
        );
    }

    /// Counts a request that succeeded without TLS after it failed with it.
    pub(in crate::worker) fn fell_back(&self) {
        self.fallbacks.inc();
    }

    /// A pause begins. It counts unless it is finished.
    pub(in crate::worker) fn pause(&self) -> Pause<'_> {
        Pause { unfinished: Some(&self.unfinished_pauses) }
    }
}

/// A pause under way.
#[must_use]
pub(in crate::worker) struct Pause<'a> {
    unfinished: Option<&'a Counter>,
}

impl Pause<'_> {
    /// It took its full time.
    pub(in crate::worker) fn finish(mut self) {
        self.unfinished = None;
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        if let Some(counter) = self.unfinished {
            counter.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_and_pauses_that_are_cut_short_are_counted_by_upstreams_names() {
        let (metrics, hooks) = (Metrics::default(), HookMetrics::default());
        hooks.register(&metrics);
        hooks.fell_back();
        hooks.pause().finish();
        drop(hooks.pause());
        let text = metrics.encode();
        assert!(text.contains("\nkubelet_lifecycle_handler_http_fallbacks_total 1\n"), "{text}");
        assert!(text.contains("\nkubelet_sleep_action_terminated_early_total 1\n"), "{text}");
    }
}
