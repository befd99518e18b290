//! Metrics of desired and of rejected pods. The names and labels are upstream's.

use std::collections::BTreeMap;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::watch;

use hostlet_base::reasons;
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::{ApiState, DesiredPods, RejectedPod, is_static};
use hostlet_telemetry::{Metrics, PlainCounter, Reading};

/// Reasons with a label of their own. Others could be of any number.
const KNOWN_REASONS: [&str; 18] = [
    reasons::APP_ARMOR,
    reasons::POD_OS_SELECTOR_NODE_LABEL_DOES_NOT_MATCH,
    reasons::POD_OS_NOT_SUPPORTED,
    "InvalidNodeInfo",
    "InitContainerRestartPolicyForbidden",
    reasons::SUPPLEMENTAL_GROUPS_POLICY_NOT_SUPPORTED,
    reasons::UNEXPECTED_ADMISSION_ERROR,
    "UnexpectedPredicateFailureType",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    reasons::OUT_OF_PODS,
    "PodLevelResourcesNotSupported",
    reasons::POD_FEATURE_UNSUPPORTED,
    reasons::EVICTED,
    reasons::SYSCTL_FORBIDDEN,
    "TopologyAffinityError",
    reasons::NODE_SHUTDOWN,
];

/// The number of rejections. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RejectionCounts {
    by_reason: Family<[(&'static str, &'static str); 1], Counter>,
}

impl RejectionCounts {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_admission_rejections",
            "Cumulative number pod admission rejections by the Kubelet",
            self.by_reason.clone(),
        );
    }

    pub(super) fn rejected(&self, reason: &str) {
        self.by_reason.get_or_create(&[("reason", label(reason))]).inc();
    }
}

fn label(reason: &str) -> &'static str {
    let known = KNOWN_REASONS.into_iter().find(|known| *known == reason);
    known.unwrap_or(if reason.starts_with(reasons::OUT_OF) { "OutOfExtendedResources" } else { "Other" })
}

/// The number of preempted pods, by the first resource that was missing. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct PreemptionCounts {
    by_signal: Family<[(&'static str, String); 1], PlainCounter>,
}

impl PreemptionCounts {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_preemptions",
            "Cumulative number of pod preemptions by preemption resource",
            self.by_signal.clone(),
        );
    }

    /// Counts this many pods.
    pub(super) fn preempted(&self, pods: usize, missing: &str) {
        self.by_signal.get_or_create(&[("preemption_signal", missing.to_owned())]).inc_by(pods as u64);
    }
}

/// The pods to count.
#[derive(Clone)]
pub(super) struct CountedPods {
    pub(super) desired_pods: watch::Receiver<DesiredPods>,
    pub(super) rejected: watch::Receiver<Vec<RejectedPod>>,
    pub(super) api: watch::Receiver<ApiState>,
    pub(super) status_cache: StatusCache,
}

impl CountedPods {
    /// Registers their numbers.
    pub(super) fn register(&self, metrics: &Metrics) {
        let of = self.clone();
        let help = "The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.";
        metrics.register_gauge("kubelet_desired_pods", help, move || of.desired());
        let of = self.clone();
        let help = "The number of pods the kubelet considers active and which are being considered when admitting new pods. static is true if the pod is not from the apiserver.";
        metrics.register_gauge("kubelet_active_pods", help, move || of.active());
        let of = self.api.clone();
        let help = "The number of mirror pods the kubelet will try to create (one per admitted static pod).";
        metrics.register_gauge("kubelet_mirror_pods", help, move || {
            vec![(Vec::new(), of.borrow().mirrors.len() as u64)]
        });
        let of = self.desired_pods.clone();
        let help = "Current number of ephemeral containers in pods managed by this kubelet.";
        metrics.register_gauge("kubelet_managed_ephemeral_containers", help, move || {
            let count: usize = of.borrow().pods.iter().map(|pod| pod.ephemeral_containers().count()).sum();
            vec![(Vec::new(), count as u64)]
        });
    }

    fn desired(&self) -> Vec<Reading> {
        let admitted = self.desired_pods.borrow();
        let rejected = self.rejected.borrow();
        let rejected = rejected.iter().map(|rejected| is_static(&rejected.pod));
        by_source(admitted.pods.iter().map(|pod| pod.is_static).chain(rejected))
    }

    fn active(&self) -> Vec<Reading> {
        let over = Some(LifecycleSummary::Terminated);
        let admitted = self.desired_pods.borrow();
        let active =
            admitted.pods.iter().filter(|pod| self.status_cache.lifecycle(&pod.reference.uid) != over);
        by_source(active.map(|pod| pod.is_static))
    }
}

/// The numbers of pods of the API server and of static pods.
fn by_source(are_static: impl Iterator<Item = bool>) -> Vec<Reading> {
    let mut counts = BTreeMap::from([(false, 0), (true, 0)]);
    for is_static in are_static {
        *counts.entry(is_static).or_insert(0) += 1;
    }
    let label = |is_static: bool| if is_static { "true" } else { "" };
    counts
        .into_iter()
        .map(|(is_static, count)| (vec![("static", label(is_static).to_owned())], count))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use hostlet_base::CONFIG_SOURCE_ANNOTATION;
    use hostlet_observe::status::PodStatusEntry;
    use hostlet_pod::{AdmittedPod, Rejection};

    #[test]
    fn only_known_reasons_are_labels() {
        let metrics = Metrics::default();
        let counts = RejectionCounts::default();
        counts.register(&metrics);
        for reason in ["OutOfcpu", "OutOfexample.com/gpu", "OutOfexample.com/card", "NodeAffinity"] {
            counts.rejected(reason);
        }
        let text = metrics.encode();
        for (reason, count) in [("OutOfcpu", 1), ("OutOfExtendedResources", 2), ("Other", 1)] {
            let line = format!("kubelet_admission_rejections_total{{reason=\"{reason}\"}} {count}\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn pods_are_counted_by_source() {
        let pod = |name: &str, source: &str, ephemeral: Value| -> Arc<Pod> {
            let annotations = json!({CONFIG_SOURCE_ANNOTATION: source});
            let metadata = json!({"name": name, "namespace": "ns", "uid": name, "annotations": annotations});
            let spec = json!({"containers": [{"name": "c"}], "ephemeralContainers": ephemeral});
            Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
        };
        let admitted = [
            pod("a", "api", json!([{"name": "debugger"}])),
            pod("over", "api", json!([])),
            pod("static", "file", json!([])),
        ]
        .map(AdmittedPod::new);
        let status_cache = StatusCache::default();
        status_cache.report(PodStatusEntry {
            pod: admitted[1].clone(),
            status: Arc::default(),
            terminating_since: None,
            lifecycle: LifecycleSummary::Terminated,
            has_released: false,
        });
        let rejected =
            vec![RejectedPod::new(&pod("no", "file", json!([])), Rejection::new("NodePorts", "taken"))];
        let desired = DesiredPods { pods: admitted.to_vec(), ..DesiredPods::default() };
        let counted = CountedPods {
            desired_pods: watch::channel(desired).1,
            rejected: watch::channel(rejected).1,
            api: watch::channel(ApiState::default()).1,
            status_cache,
        };
        let metrics = Metrics::default();
        counted.register(&metrics);
        let text = metrics.encode();
        for line in [
            "kubelet_desired_pods{static=\"\"} 2",
            "kubelet_desired_pods{static=\"true\"} 2",
            "kubelet_active_pods{static=\"\"} 1",
            "kubelet_active_pods{static=\"true\"} 1",
            "kubelet_mirror_pods 0",
            "kubelet_managed_ephemeral_containers 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        }
    }
}
