//! Metrics of statuses on the API server: how long they take to arrive, and how long pods take to start by the definition of the pod
//! startup latency SLI (sig-scalability, `pod_startup_latency.md`). Names and buckets are upstream's.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, Volume};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use hostlet_pod::has_ended;
use hostlet_telemetry::{Metrics, POD_START_BUCKETS};

/// Upstream's buckets of `kubelet_pod_status_sync_duration_seconds`.
const SYNC_BUCKETS: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct PublishMetrics {
    sync: Histogram,
    start: Histogram,
    start_of_work: Histogram,
    first: Gauge<f64, AtomicU64>,
}

impl Default for PublishMetrics {
    fn default() -> Self {
        Self {
            sync: Histogram::new(SYNC_BUCKETS),
            start: Histogram::new(POD_START_BUCKETS),
            start_of_work: Histogram::new(POD_START_BUCKETS),
            first: Gauge::default(),
        }
    }
}

impl PublishMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_pod_status_sync_duration_seconds",
            "Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur",
            self.sync.clone(),
        );
        metrics.register(
            "kubelet_pod_start_total_duration_seconds",
            "Duration in seconds to start a pod since creation, including time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
            self.start.clone(),
        );
        metrics.register(
            "kubelet_pod_start_sli_duration_seconds",
            "Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
            self.start_of_work.clone(),
        );
        metrics.register(
            "kubelet_first_network_pod_start_sli_duration_seconds",
            "Duration in seconds to start the first network pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
            self.first.clone(),
        );
    }

    /// Observes a status that the API server has, this long after the first change that it did not have.
    pub(super) fn synced(&self, took: Duration) {
        self.sync.observe(took.as_secs_f64());
    }

    /// Observes a pod that the API server shows as started `now`. Its images were pulled for `pulling`.
    pub(super) fn started(&self, pod: &Pod, status: &PodStatus, pulling: Duration, now: Timestamp) {
        let Some(created) = pod.metadata.creation_timestamp.as_ref() else { return };
        let took = Duration::try_from(now.duration_since(created.0)).unwrap_or_default();
        self.start.observe(took.as_secs_f64());
        let spec = pod.spec.as_ref();
        if spec.is_some_and(|spec| spec.volumes.iter().flatten().any(is_stateful)) {
            return;
        }
        let work = took.saturating_sub(pulling).saturating_sub(init_time(status)).as_secs_f64();
        self.start_of_work.observe(work);
        let has_network = spec.is_some_and(|spec| !spec.host_network.unwrap_or(false));
        if has_network && self.first.get() == 0.0 {
            self.first.set(work);
        }
    }
}

/// Whether the start of a pod is to be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StartWatch {
    /// Its object was not seen yet.
    #[default]
    Unseen,
    /// It has not started yet.
    Starting,
    /// It has started, ended, or is none that counts: an earlier daemon began it, or it had to wait for a node.
    Over,
}

impl StartWatch {
    /// Follows the status that the API server has now. Returns whether the pod has just started.
    pub(super) fn see(&mut self, status: &PodStatus) -> bool {
        let is_over = has_ended(status) || is_unschedulable(status);
        *self = match *self {
            _ if is_over => Self::Over,
            Self::Unseen if status.start_time.is_some() => Self::Over,
            Self::Unseen | Self::Starting => Self::Starting,
            Self::Over => return false,
        };
        let has_started = *self == Self::Starting && has_started(status);
        if has_started {
            *self = Self::Over;
        }
        has_started
    }
}

/// Whether each container runs.
fn has_started(status: &PodStatus) -> bool {
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let runs = |container: &ContainerStatus| {
        container
            .state
            .as_ref()
            .is_some_and(|state| state.running.as_ref().is_some_and(|running| running.started_at.is_some()))
    };
    !containers.is_empty() && containers.iter().all(runs)
}

fn is_unschedulable(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
}

/// Whether a volume is of a kind that the SLI excludes.
fn is_stateful(volume: &Volume) -> bool {
    volume.secret.is_none()
        && volume.config_map.is_none()
        && volume.downward_api.is_none()
        && volume.empty_dir.is_none()
        && volume.projected.is_none()
}

/// For how long the init containers ran that have terminated.
fn init_time(status: &PodStatus) -> Duration {
    let runs = status.init_container_statuses.iter().flatten().filter_map(|container| {
        let end = container.state.as_ref()?.terminated.as_ref()?;
        let ran = end.finished_at.as_ref()?.0.duration_since(end.started_at.as_ref()?.0);
        Duration::try_from(ran).ok()
    });
    runs.sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    fn container(state: Value) -> Value {
        json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state})
    }

    fn running() -> PodStatus {
        let started = json!({"startedAt": "2026-11-25T10:00:09Z"});
        let init =
            json!({"startedAt": "2026-11-25T10:00:02Z", "finishedAt": "2026-11-25T10:00:05Z", "exitCode": 0});
        status(json!({
            "phase": "Running", "startTime": "2026-11-25T10:00:00Z",
            "containerStatuses": [container(json!({"running": started}))],
            "initContainerStatuses": [container(json!({"terminated": init}))],
        }))
    }

    #[test]
    fn only_the_start_of_a_new_and_schedulable_pod_counts_and_once() {
        let (new, running) = (status(json!({"phase": "Pending"})), running());
        let waits = container(json!({"waiting": {"reason": "ContainerCreating"}}));
        let creating = status(
            json!({"phase": "Pending", "startTime": "2026-11-25T10:00:00Z", "containerStatuses": [waits]}),
        );
        let unschedulable =
            status(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}));
        let failed = status(json!({"phase": "Failed"}));
        for (seen, starts) in [
            (vec![&new, &new, &creating, &running, &running], 1),
            (vec![&creating, &running], 0),
            (vec![&unschedulable, &new, &running], 0),
            (vec![&new, &failed, &running], 0),
        ] {
            let mut watch = StartWatch::default();
            assert_eq!(seen.iter().filter(|status| watch.see(status)).count(), starts, "{seen:?}");
        }
    }

    #[test]
    fn pulls_and_init_containers_do_not_count_as_work_and_stateful_pods_not_at_all() {
        let (metrics, publish) = (Metrics::default(), PublishMetrics::default());
        publish.register(&metrics);
        let pod = |volumes: Value| -> Pod {
            let metadata = json!({"name": "a", "creationTimestamp": "2026-11-25T10:00:00Z"});
            serde_json::from_value(
                json!({"metadata": metadata, "spec": {"containers": [], "volumes": volumes}}),
            )
            .unwrap()
        };
        let now: Timestamp = "2026-11-25T10:00:10Z".parse().unwrap();
        let pulling = Duration::from_secs(2);
        publish.started(&pod(json!([{"name": "v", "emptyDir": {}}])), &running(), pulling, now);
        publish.started(&pod(json!([{"name": "v", "hostPath": {"path": "/"}}])), &running(), pulling, now);
        publish.synced(Duration::from_millis(20));
        let text = metrics.encode();
        for line in [
            "kubelet_pod_start_total_duration_seconds_sum 20.0",
            "kubelet_pod_start_total_duration_seconds_count 2",
            "kubelet_pod_start_sli_duration_seconds_sum 5.0",
            "kubelet_pod_start_sli_duration_seconds_count 1",
            "kubelet_first_network_pod_start_sli_duration_seconds 5.0",
            "kubelet_pod_status_sync_duration_seconds_bucket{le=\"0.05\"} 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
    }
}
