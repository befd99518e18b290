//! Metrics of plugin registration. Counts only what the task reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostlet_telemetry::{Metrics, Reading};
use tokio::sync::watch;

use super::failure::FailureKind;
use super::view::PluginView;

/// Counters of attempts.
#[derive(Debug, Default)]
pub(super) struct Counts {
    registered: AtomicU64,
    unreachable: AtomicU64,
    rejected: AtomicU64,
    unsupported: AtomicU64,
}

impl Counts {
    pub(super) fn registered(&self) {
        self.registered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, kind: FailureKind) {
        let counter = match kind {
            FailureKind::Unreachable => &self.unreachable,
            FailureKind::Rejected => &self.rejected,
            FailureKind::Unsupported => &self.unsupported,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn register(self: &Arc<Self>, metrics: &Metrics, views: watch::Receiver<Arc<[PluginView]>>) {
        metrics.register_gauge(
            "plugin_manager_total_plugins",
            "Number of plugins in Plugin Manager.",
            move || readings(&views.borrow()),
        );
        let counts = self.clone();
        let help = "Attempts to register plugins, by result.";
        metrics.register_counter("hostlet_plugin_registrations", help, move || {
            let by_result = [
                ("registered", &counts.registered),
                ("unreachable", &counts.unreachable),
                ("rejected", &counts.rejected),
                ("unsupported", &counts.unsupported),
            ];
            let reading = |(result, count): (&str, &AtomicU64)| {
                (vec![("result", result.to_owned())], count.load(Ordering::Relaxed))
            };
            by_result.map(reading).into()
        });
    }
}

/// Upstream's metric: one per socket that exists, and one per socket whose plugin is registered.
fn readings(views: &[PluginView]) -> Vec<Reading> {
    let reading = |socket: &str, state: &str| {
        (vec![("socket_path", socket.to_owned()), ("state", state.to_owned())], 1)
    };
    let registered = views.iter().filter(|view| view.is_registered());
    let registered = registered.map(|view| reading(&view.socket, "actual_state_of_world"));
    let desired = views.iter().map(|view| reading(&view.socket, "desired_state_of_world"));
    registered.chain(desired).collect()
}
