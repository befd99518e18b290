//! Metrics of this node's identity and of the daemon's process. The names and labels are upstream's.

use std::path::PathBuf;

use jiff::Timestamp;
use prometheus_client::metrics::MetricType;

use hostlet_base::{KUBERNETES_VERSION, architecture};
use hostlet_host::ProcessUsage;
use hostlet_telemetry::{Figure, Metrics};

/// Registers the name of the node and the version of Kubernetes that it is compatible with.
pub fn register_identity(metrics: &Metrics, node: &str) {
    let labels = vec![("node", node.to_owned())];
    let help = "The node's name. The count is always 1.";
    metrics.register_gauge("kubelet_node_name", help, move || vec![(labels.clone(), 1)]);
    let help = "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.";
    let labels = build_labels();
    metrics.register_gauge("kubernetes_build_info", help, move || vec![(labels.clone(), 1)]);
}

/// hostlet has no commit, date and Go version of Kubernetes.
fn build_labels() -> Vec<(&'static str, String)> {
    let mut parts = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let mut part = || parts.next().unwrap_or_default();
    let (major, minor) = (part(), part());
    let platform = format!("linux/{}", architecture());
    let labels = [
        ("build_date", ""),
        ("compiler", "rustc"),
        ("git_commit", ""),
        ("git_tree_state", ""),
        ("git_version", KUBERNETES_VERSION),
        ("go_version", ""),
        ("major", major),
        ("minor", minor),
        ("platform", &platform),
    ];
    labels.map(|(name, value)| (name, value.to_owned())).to_vec()
}

/// Registers when the process started.
pub fn register_start(metrics: &Metrics, started: Timestamp) {
    let help = "Start time of the process since unix epoch in seconds.";
    let seconds = started.as_millisecond() as f64 / 1000.0;
    metrics.register_value("process_start_time_seconds", help, move || seconds);
}

const fn figure(
    name: &'static str,
    kind: MetricType,
    help: &'static str,
    value: fn(&ProcessUsage) -> f64,
) -> Figure<ProcessUsage> {
    Figure { name, help, kind, value }
}

const PROCESS: [Figure<ProcessUsage>; 6] = [
    figure(
        "process_cpu_seconds",
        MetricType::Counter,
        "Total user and system CPU time spent in seconds.",
        |usage| usage.cpu_seconds,
    ),
    figure("process_max_fds", MetricType::Gauge, "Maximum number of open file descriptors.", |usage| {
        // As the Go client says of no limit, here and below.
        usage.max_open_files.unwrap_or(u64::MAX) as f64
    }),
    figure("process_open_fds", MetricType::Gauge, "Number of open file descriptors.", |usage| {
        usage.open_files as f64
    }),
    figure("process_resident_memory_bytes", MetricType::Gauge, "Resident memory size in bytes.", |usage| {
        usage.resident_memory as f64
    }),
    figure("process_virtual_memory_bytes", MetricType::Gauge, "Virtual memory size in bytes.", |usage| {
        usage.virtual_memory as f64
    }),
    figure(
        "process_virtual_memory_max_bytes",
        MetricType::Gauge,
        "Maximum amount of virtual memory available in bytes.",
        |usage| usage.max_virtual_memory.unwrap_or(u64::MAX) as f64,
    ),
];

/// Registers what the process uses, read below `proc`.
pub fn register_process(metrics: &Metrics, proc: PathBuf) {
    metrics.register_figures(&PROCESS, move || ProcessUsage::read(&proc));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_its_version_and_its_process_are_shown() {
        let metrics = Metrics::default();
        register_identity(&metrics, "node1");
        register_start(&metrics, "2026-11-25T10:00:00.5Z".parse().unwrap());
        register_process(&metrics, "/proc".into());
        let text = metrics.encode();
        for part in [
            "kubelet_node_name{node=\"node1\"} 1\n",
            ",git_version=\"v1.37.2\",go_version=\"\",major=\"1\",minor=\"37\",",
            "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total ",
            "# TYPE process_open_fds gauge\nprocess_open_fds ",
            "# TYPE process_virtual_memory_max_bytes gauge\nprocess_virtual_memory_max_bytes ",
            "process_start_time_seconds 1795600800.5\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
