//! Counts terminations of containers by comparing a status with the one before. The name and labels are upstream's.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, PodStatus};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use hostlet_pod::ContainerKind;
use hostlet_telemetry::Metrics;

type Labels = [(&'static str, String); 3];

/// The number of terminations. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct TerminationMetrics {
    terminated: Family<Labels, Counter>,
}

impl TerminationMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_terminated_containers",
            "Cumulative number of container terminations",
            self.terminated.clone(),
        );
    }

    /// Counts the containers that have terminated since the status `before`.
    pub(super) fn count(&self, before: &PodStatus, now: &PodStatus) {
        let lists = [
            (ContainerKind::Init, &before.init_container_statuses, &now.init_container_statuses),
            (ContainerKind::Main, &before.container_statuses, &now.container_statuses),
            (
                ContainerKind::Ephemeral,
                &before.ephemeral_container_statuses,
                &now.ephemeral_container_statuses,
            ),
        ];
        for (kind, before, now) in lists {
            for (container, end) in now.iter().flatten().filter_map(|now| Some((now, end_of(now)?))) {
                let mut known = before.iter().flatten().filter(|known| known.name == container.name);
                if known.next().is_none_or(|known| end_of(known).is_none()) {
                    self.terminated.get_or_create(&labels(kind, end)).inc();
                }
            }
        }
    }
}

fn end_of(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

fn labels(kind: ContainerKind, end: &ContainerStateTerminated) -> Labels {
    [
        ("container_type", kind.metric_label().to_owned()),
        ("exit_code", end.exit_code.to_string()),
        ("reason", end.reason.clone().unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_termination_counts_once_also_if_it_was_not_seen_running() {
        let (metrics, terminations) = (Metrics::default(), TerminationMetrics::default());
        terminations.register(&metrics);
        let status = |init: Value, main: Value| -> PodStatus {
            let one = |name: &str, state: Value| json!([{"name": name, "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0}]);
            let status = json!({
                "initContainerStatuses": one("i", init), "containerStatuses": one("c", main),
            });
            serde_json::from_value(status).unwrap()
        };
        let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        let begun = status(ended(0, "Completed"), json!({"running": {}}));
        let over = status(ended(0, "Completed"), ended(137, "OOMKilled"));
        terminations.count(&PodStatus::default(), &begun);
        terminations.count(&begun, &over);
        terminations.count(&over, &over);
        let text = metrics.encode();
        for line in [
            "{container_type=\"init_container\",exit_code=\"0\",reason=\"Completed\"} 1",
            "{container_type=\"container\",exit_code=\"137\",reason=\"OOMKilled\"} 1",
        ] {
            assert!(text.contains(&format!("kubelet_terminated_containers_total{line}\n")), "{text}");
        }
    }
}
