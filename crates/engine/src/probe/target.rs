//! The instances of a pod's containers that probes are about, as the pod's status shows them. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStatus;

use hostlet_base::ContainerId;
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry};
use hostlet_pod::{AdmittedPod, ContainerKind, ContainerRef, ProbeKind, has_ended};

/// The newest instance of a container with probes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenInstance {
    pub(super) container: ContainerRef,
    pub(super) id: ContainerId,
    /// Since when it runs; none while it does not.
    pub(super) running_since: Option<Timestamp>,
    /// Its status says that it has started.
    pub(super) started: bool,
    /// Its status says that it is ready.
    pub(super) ready: bool,
}

/// A pod with probes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenPod {
    pub(super) pod: Arc<AdmittedPod>,
    /// Its first address; empty without one.
    pub(super) ip: String,
    /// It is being stopped: only its readiness still matters.
    pub(super) is_ending: bool,
    pub(super) instances: Vec<SeenInstance>,
}

/// Whether a pod has probes.
pub(super) fn has_probes(pod: &AdmittedPod) -> bool {
    let has = |container| ProbeKind::ALL.iter().any(|kind| kind.of(container).is_some());
    pod.containers().any(|container| has(container.spec))
}

impl SeenPod {
    /// What a status shows of a pod with probes.
    pub(super) fn new(entry: &PodStatusEntry) -> Self {
        let status = &*entry.status;
        let is_over = has_ended(status);
        let is_ending = entry.pod.is_deleted()
            || entry.terminating_since.is_some()
            || entry.lifecycle != LifecycleSummary::Active;
        let mut instances = Vec::new();
        for container in entry.pod.containers().filter(|_| !is_over) {
            let statuses = match container.kind {
                ContainerKind::Main => &status.container_statuses,
                ContainerKind::Sidecar => &status.init_container_statuses,
                // Init and ephemeral containers have no probes.
                ContainerKind::Init | ContainerKind::Ephemeral => continue,
            };
            if ProbeKind::ALL.iter().all(|kind| kind.of(container.spec).is_none()) {
                continue;
            }
            let shown = statuses.iter().flatten().find(|status| status.name == container.spec.name);
            instances.extend(shown.and_then(|shown| instance(container.reference(), shown)));
        }
        let ip = status.pod_ip.clone().unwrap_or_default();
        Self { pod: entry.pod.clone(), ip, is_ending, instances }
    }
}

fn instance(container: ContainerRef, status: &ContainerStatus) -> Option<SeenInstance> {
    let (_, id) = status.container_id.as_deref()?.split_once("://")?;
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let since =
        running.map(|running| running.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0));
    Some(SeenInstance {
        container,
        id: ContainerId::from(id),
        running_since: since,
        started: status.started.unwrap_or(false),
        ready: status.ready,
    })
}
