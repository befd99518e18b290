//! Metrics of the gates: how many starts and stops wait, and for how long.

use super::{StartGate, StopGate};
use hostlet_telemetry::Metrics;

impl StartGate {
    /// Adds the gate's metrics.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(
            "hostlet_start_gate_wait_seconds",
            "Time in seconds that starts of sandboxes and containers waited for a slot",
            self.wait_times().histogram(),
        );
        let gate = self.clone();
        metrics.register_gauge(
            "hostlet_start_gate_waiting",
            "Starts of sandboxes and containers that wait for a slot.",
            move || vec![(Vec::new(), gate.waiting())],
        );
    }
}

impl StopGate {
    /// Adds the gate's metrics.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(
            "hostlet_stop_gate_wait_seconds",
            "Time in seconds that stops of pods waited for a slot",
            self.wait_times().histogram(),
        );
        let gate = self.clone();
        metrics.register_gauge(
            "hostlet_stop_gate_waiting",
            "Stops of pods that wait for a slot.",
            move || vec![(Vec::new(), gate.waiting())],
        );
    }
}
