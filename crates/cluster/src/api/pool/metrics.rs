//! Metrics of the connections to the API server, and of the requests on them.

use hostlet_telemetry::{Metrics, Reading};

use super::{Connections, LaneCounts};

impl Connections {
    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.requests.register(metrics);
        let read = |connections: Self, value: fn(&LaneCounts) -> u64| {
            move || connections.counts().into_iter().map(|counts| reading(counts, value)).collect()
        };
        metrics.register_gauge(
            "hostlet_api_connections",
            "Open connections to the API server.",
            read(self.clone(), |counts| counts.open as u64),
        );
        metrics.register_gauge(
            "hostlet_api_streams",
            "Open requests and watches on the connections to the API server.",
            read(self.clone(), |counts| counts.streams as u64),
        );
        metrics.register_counter(
            "hostlet_api_connections_made",
            "Connections to the API server that were made.",
            read(self.clone(), |counts| counts.made),
        );
        metrics.register_counter(
            "hostlet_api_connections_lost",
            "Connections to the API server that were lost.",
            read(self.clone(), |counts| counts.lost),
        );
    }
}

fn reading(counts: LaneCounts, value: fn(&LaneCounts) -> u64) -> Reading {
    let value = value(&counts);
    (vec![("purpose", counts.purpose)], value)
}
