//! Metrics of requested and deferred resizes. The names are upstream's.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_pod::resources::{Enforced, Resizable};
use hostlet_pod::{AdmittedPod, PendingResizeReason, priority_bucket};
use hostlet_telemetry::Metrics;

type Labels = [(&'static str, &'static str); 3];

type Durations = Family<[(&'static str, &'static str); 2], Histogram, fn() -> Histogram>;

/// What made a deferred resize be decided on again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    PodTerminated,
    /// Pods were removed.
    PodsRemoved,
    /// Another resize was allocated.
    PodResized,
    /// Anything else: a pod or the node changed.
    PodUpdated,
}

impl Trigger {
    fn as_str(self) -> &'static str {
        match self {
            Self::PodTerminated => "pod_terminated",
            Self::PodsRemoved => "pods_removed",
            Self::PodResized => "pod_resized",
            Self::PodUpdated => "pod_updated",
        }
    }
}

/// How a deferred resize ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resolution {
    /// It was allocated.
    Accepted,
    /// It is no longer requested.
    Reverted,
    /// Its pod is gone.
    Terminated,
}

impl Resolution {
    fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Reverted => "reverted",
            Self::Terminated => "terminated",
        }
    }
}

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ResizeMetrics {
    requested: Family<Labels, Counter>,
    infeasible: Family<[(&'static str, &'static str); 1], Counter>,
    accepted: Family<[(&'static str, &'static str); 1], Counter>,
    deferred: Durations,
}

impl Default for ResizeMetrics {
    fn default() -> Self {
        Self {
            requested: Family::default(),
            infeasible: Family::default(),
            accepted: Family::default(),
            deferred: Family::new_with_constructor(deferred_duration),
        }
    }
}

fn deferred_duration() -> Histogram {
    Histogram::new([
        5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 150.0, 180.0, 300.0, 600.0, 1200.0, 1800.0,
        3600.0,
    ])
}

impl ResizeMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_container_requested_resizes",
            "Number of requested resizes, counted at the container level; each resource, and its request and limit, counts for itself",
            self.requested.clone(),
        );
        metrics.register(
            "kubelet_pod_infeasible_resizes",
            "Number of infeasible resizes for pods.",
            self.infeasible.clone(),
        );
        metrics.register(
            "kubelet_pod_deferred_accepted_resizes",
            "Cumulative number of resizes that were accepted after being deferred.",
            self.accepted.clone(),
        );
        metrics.register(
            "kubelet_pod_deferred_resize_duration_seconds",
            "Duration in seconds that a pod resize remains deferred before completion",
            self.deferred.clone(),
        );
    }

    /// Counts a resize that this node never does.
    pub(super) fn infeasible(&self, why: &'static str) {
        self.infeasible.get_or_create(&[("reason_detail", why)]).inc();
    }

    /// Counts a resize that is allocated to `pod`, if it was deferred.
    pub(super) fn allocated(&self, pod: &AdmittedPod, trigger: Trigger, now: Timestamp) {
        if self.resolved(pod, Resolution::Accepted, now) {
            self.accepted.get_or_create(&[("retry_trigger", trigger.as_str())]).inc();
        }
    }

    /// Observes how long a resize of `pod` was deferred. Returns whether one was.
    pub(super) fn resolved(&self, pod: &AdmittedPod, resolution: Resolution, now: Timestamp) -> bool {
        let pending = pod.resize.pending.as_ref();
        let Some(deferred) = pending.filter(|pending| pending.reason == PendingResizeReason::Deferred) else {
            return false;
        };
        let labels = [("resolution", resolution.as_str()), ("priority_bucket", priority_bucket(pod))];
        self.deferred.get_or_create(&labels).observe(now.duration_since(deferred.since).as_secs_f64());
        true
    }

    /// Counts what differs between two versions of a pod.
    pub(super) fn requested(&self, before: &Pod, after: &Pod) {
        for container in containers(after) {
            let Some(old) = containers(before).find(|old| old.name == container.name) else { continue };
            let (old, new) = (own(old), own(container));
            for resource in [Resizable::Memory, Resizable::Cpu] {
                let ((old_request, old_limit), (request, limit)) =
                    (old.amounts(resource), new.amounts(resource));
                let both = [("requests", old_request, request), ("limits", old_limit, limit)];
                for (requirement, old, new) in both {
                    let Some(operation) = operation(old, new) else { continue };
                    let resource = ("resource", resource.name());
                    let labels = [resource, ("requirement", requirement), ("operation", operation)];
                    self.requested.get_or_create(&labels).inc();
                }
            }
        }
    }
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

/// The container's own resources.
fn own(container: &Container) -> Enforced {
    Enforced::of(&Pod::default(), container)
}

fn operation(old: i64, new: i64) -> Option<&'static str> {
    match (old, new) {
        (old, new) if old == new => None,
        (_, 0) => Some("remove"),
        (0, _) => Some("add"),
        (old, new) => Some(if new < old { "decrease" } else { "increase" }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_changed_amount_counts() {
        let pod = |resources: Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
                .unwrap()
        };
        let (all, counted) = (Metrics::default(), ResizeMetrics::default());
        counted.register(&all);
        let before = pod(json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "1"}}));
        counted.requested(&before, &before);
        let after = pod(json!({"requests": {"cpu": "2", "memory": "1Mi"}, "limits": {"memory": "1Mi"}}));
        counted.requested(&before, &after);
        let text = all.encode();
        for (resource, requirement, operation) in
            [("cpu", "requests", "increase"), ("cpu", "limits", "remove"), ("memory", "limits", "add")]
        {
            let line = format!(
                "kubelet_container_requested_resizes_total{{resource=\"{resource}\",requirement=\"{requirement}\",operation=\"{operation}\"}} 1\n"
            );
            assert!(text.contains(&line), "{text}");
        }
        assert_eq!(text.matches("_total{").count(), 3);
    }
}
