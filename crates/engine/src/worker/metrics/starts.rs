//! Metrics of the pods and containers that are started. The names are upstream's.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_pod::ContainerKind;
use hostlet_telemetry::{DEFAULT_BUCKETS, Metrics};

type Handler = [(&'static str, String); 1];
type Kind = [(&'static str, &'static str); 1];
type KindAndCode = [(&'static str, String); 2];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::worker) struct StartMetrics {
    pods: Counter,
    pod_errors: Counter,
    pods_with_users: Counter,
    pod_errors_with_users: Counter,
    sandbox_duration: Family<Handler, Histogram>,
    sandbox_errors: Family<Handler, Counter>,
    containers: Family<Kind, Counter>,
    container_errors: Family<KindAndCode, Counter>,
}

impl Default for StartMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DEFAULT_BUCKETS);
        Self {
            pods: Counter::default(),
            pod_errors: Counter::default(),
            pods_with_users: Counter::default(),
            pod_errors_with_users: Counter::default(),
            sandbox_duration: Family::new_with_constructor(histogram),
            sandbox_errors: Family::default(),
            containers: Family::default(),
            container_errors: Family::default(),
        }
    }
}

impl StartMetrics {
    /// Registers them.
    pub(super) fn register(&self, metrics: &Metrics) {
        let counters = [
            ("kubelet_started_pods", "Cumulative number of pods started", &self.pods),
            (
                "kubelet_started_pods_errors",
                "Cumulative number of errors when starting pods",
                &self.pod_errors,
            ),
            (
                "kubelet_started_user_namespaced_pods",
                "Cumulative number of pods with user namespaces started",
                &self.pods_with_users,
            ),
            (
                "kubelet_started_user_namespaced_pods_errors",
                "Cumulative number of errors when starting pods with user namespaces",
                &self.pod_errors_with_users,
            ),
        ];
        for (name, help, counter) in counters {
            metrics.register(name, help, counter.clone());
        }
        metrics.register(
            "kubelet_run_podsandbox_duration_seconds",
            "Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler",
            self.sandbox_duration.clone(),
        );
        metrics.register(
            "kubelet_run_podsandbox_errors",
            "Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler",
            self.sandbox_errors.clone(),
        );
        metrics.register(
            "kubelet_started_containers",
            "Cumulative number of containers started",
            self.containers.clone(),
        );
        metrics.register(
            "kubelet_started_containers_errors",
            "Cumulative number of errors when starting containers",
            self.container_errors.clone(),
        );
    }

    /// Counts a pod that gets a sandbox, which may have its own users.
    pub(in crate::worker) fn pod(&self, has_users: bool) {
        self.pods.inc();
        if has_users {
            self.pods_with_users.inc();
        }
    }

    /// Counts a pod that got no sandbox.
    pub(in crate::worker) fn pod_failed(&self, has_users: bool) {
        self.pod_errors.inc();
        if has_users {
            self.pod_errors_with_users.inc();
        }
    }

    /// Counts a pod with its own users of which a container could not be started in a new sandbox.
    pub(in crate::worker) fn pod_with_users_failed(&self) {
        self.pod_errors_with_users.inc();
    }

    /// Records a call that creates a sandbox with this handler.
    pub(in crate::worker) fn sandbox(&self, handler: &str, took: Duration, has_failed: bool) {
        let handler = [("runtime_handler", handler.to_owned())];
        self.sandbox_duration.get_or_create(&handler).observe(took.as_secs_f64());
        if has_failed {
            self.sandbox_errors.get_or_create(&handler).inc();
        }
    }

    /// Counts an attempt to start a container.
    pub(in crate::worker) fn container(&self, kind: ContainerKind) {
        self.containers.get_or_create(&[("container_type", kind.metric_label())]).inc();
    }

    /// Counts an attempt that failed with this waiting reason.
    pub(in crate::worker) fn container_failed(&self, kind: ContainerKind, reason: &str) {
        let labels = [("container_type", kind.metric_label().to_owned()), ("code", reason.to_owned())];
        self.container_errors.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_counted_by_upstreams_names_and_labels() {
        let (metrics, starts) = (Metrics::default(), StartMetrics::default());
        starts.register(&metrics);
        starts.pod(false);
        starts.pod(true);
        starts.pod_failed(true);
        starts.pod_with_users_failed();
        starts.sandbox("runc", Duration::from_millis(20), true);
        starts.sandbox("", Duration::from_millis(20), false);
        starts.container(ContainerKind::Sidecar);
        starts.container_failed(ContainerKind::Main, "ErrImagePull");
        let text = metrics.encode();
        for line in [
            "kubelet_started_pods_total 2",
            "kubelet_started_pods_errors_total 1",
            "kubelet_started_user_namespaced_pods_total 1",
            "kubelet_started_user_namespaced_pods_errors_total 2",
            "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"\"} 1",
            "kubelet_run_podsandbox_errors_total{runtime_handler=\"runc\"} 1",
            "kubelet_started_containers_total{container_type=\"init_container\"} 1",
            "kubelet_started_containers_errors_total{container_type=\"container\",code=\"ErrImagePull\"} 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        }
    }
}
