//! The inputs of one pod's status, and the status that follows. Pure except for reading the PLEG cache.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hostlet_base::ContainerId;
use hostlet_pod::{AdmittedPod, ProbeResults};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus as ApiStatus;

use super::generate::generate;
use super::input::StatusInput;
use super::newest::newest;
use super::{LifecycleSummary, PodFacts, PodStatusEntry, StatusGates, with_actual_outcomes};
use crate::pleg::{Cache, PodStatus};

/// What statuses of all pods share, and the time.
pub(super) struct NodeInputs<'a> {
    pub(super) now: Timestamp,
    pub(super) runtime_name: &'a str,
    pub(super) probes: &'a ProbeResults,
    pub(super) host_ips: &'a [IpAddr],
    pub(super) gates: StatusGates,
}

/// One pod in one lifecycle.
#[derive(Default)]
pub(super) struct PodState {
    pod: Option<Arc<AdmittedPod>>,
    /// Its next version, with a resize that its worker has not taken up: it would look as if it had completed.
    resized: Option<Arc<AdmittedPod>>,
    /// None before its worker's first sync: nothing is reported until then.
    facts: Option<PodFacts>,
    pub(super) termination_messages: BTreeMap<ContainerId, String>,
    /// The object whose status was merged last.
    merged: Option<Arc<AdmittedPod>>,
    /// What was last reported.
    reported: Option<Reported>,
}

struct Reported {
    status: Arc<ApiStatus>,
    terminating_since: Option<Timestamp>,
    lifecycle: LifecycleSummary,
    has_released: bool,
}

impl PodState {
    /// Takes in a version of the pod.
    pub(super) fn set_pod(&mut self, pod: Arc<AdmittedPod>) {
        let is_behind = |facts: &PodFacts| {
            matches!(facts.progress, super::PodProgress::Active) && facts.allocations < pod.resize.allocations
        };
        if self.facts.as_ref().is_some_and(is_behind) {
            self.resized = Some(pod);
        } else {
            self.resized = None;
            self.pod = Some(pod);
        }
    }

    /// Takes in what its worker knows.
    pub(super) fn set_facts(&mut self, facts: PodFacts) {
        self.facts = Some(facts);
        if let Some(pod) = self.resized.take() {
            self.set_pod(pod);
        }
    }

    /// The observed pod, with what its worker knows beyond that; none while that is unknown.
    pub(super) fn observed(&self, cache: &Cache) -> Option<Arc<PodStatus>> {
        let facts = self.facts.as_ref()?;
        let mut observed = match &facts.progress {
            super::PodProgress::Terminated { observed, .. } => return Some(observed.clone()),
            super::PodProgress::Active | super::PodProgress::Terminating(_) => {
                let pod = &self.pod.as_ref()?.reference;
                cache.get(pod).ok().filter(|_| cache.is_newer(pod, None))?
            }
        };
        if let Some(actual) =
            with_actual_outcomes(&observed, |container| facts.lost_starts.contains(&container.id))
        {
            observed = Arc::new(actual);
        }
        if observed.containers.iter().any(|container| facts.post_starting.contains(&container.id)) {
            let observed = Arc::make_mut(&mut observed);
            observed.containers.retain(|container| !facts.post_starting.contains(&container.id));
        }
        let is_missing = |ended: &&ContainerStatus| observed.container(&ended.name).is_none();
        let missing: Vec<ContainerStatus> = facts.removed.iter().filter(is_missing).cloned().collect();
        if !missing.is_empty() {
            Arc::make_mut(&mut observed).containers.extend(missing);
        }
        let unseen = facts.made_sandbox.as_ref();
        if let Some(made) = unseen.filter(|made| observed.sandboxes.iter().all(|seen| seen.id != made.id)) {
            replace_sandbox(Arc::make_mut(&mut observed), made.clone());
        }
        Some(observed)
    }

    /// Whether its worker has observed it.
    pub(super) fn is_known(&self) -> bool {
        self.pod.is_some() && self.facts.is_some()
    }

    /// The terminated containers whose termination messages were not read yet. Forgets the messages of removed containers.
    pub(super) fn unread(&mut self, observed: &PodStatus) -> Vec<ContainerStatus> {
        self.termination_messages.retain(|id, _| observed.containers.iter().any(|c| c.id == *id));
        let is_unread = |container: &&ContainerStatus| {
            container.state == ContainerState::Exited
                && !self.termination_messages.contains_key(&container.id)
        };
        observed.containers.iter().filter(is_unread).cloned().collect()
    }

    /// The entry to report for the pod; none if it was reported already.
    pub(super) fn report(&mut self, observed: &PodStatus, node: &NodeInputs<'_>) -> Option<PodStatusEntry> {
        let (pod, facts) = (self.pod.clone()?, self.facts.take()?);
        let previous = self.previous(&pod);
        let lifecycle = facts.progress.lifecycle();
        let status = generate(&StatusInput {
            pod: &pod,
            observed,
            reasons: &facts.waiting,
            starting: &facts.starting,
            termination_messages: &self.termination_messages,
            probes: &node.probes.of(&pod.reference.uid),
            setup_error: facts.setup_error.as_deref(),
            pulling: &facts.pulling,
            actuated: facts.actuated.as_deref(),
            device_health: &facts.device_health,
            recursive_read_only: facts.recursive_read_only,
            lifecycle,
            status_override: facts.progress.status_override(),
            previous: previous.as_ref(),
            now: node.now,
            runtime_name: node.runtime_name,
            host_ips: node.host_ips,
            gates: node.gates,
        });
        let has_released = facts.has_released;
        self.facts = Some(facts);
        // A pod that ran to completion is stopped too, but is not terminating.
        let is_stopping = lifecycle != LifecycleSummary::Active
            && observed.containers.iter().any(|c| c.state == ContainerState::Running);
        let since = self.reported.as_ref().and_then(|reported| reported.terminating_since);
        let terminating_since = is_stopping.then(|| since.unwrap_or(node.now));
        let is_known = self.reported.as_ref().is_some_and(|reported| {
            *reported.status == status
                && reported.terminating_since == terminating_since
                && reported.lifecycle == lifecycle
                && reported.has_released == has_released
        });
        if is_known {
            return None;
        }
        let unchanged = self.reported.take().filter(|reported| *reported.status == status);
        let status = unchanged.map_or_else(|| Arc::new(status), |reported| reported.status);
        self.reported = Some(Reported { status: status.clone(), terminating_since, lifecycle, has_released });
        Some(PodStatusEntry { pod, status, terminating_since, lifecycle, has_released })
    }

    /// The status to continue from: the one last reported, merged with the API server's whenever that sent a new object: after a
    /// restart of the daemon, and when others wrote conditions that affect the pod's readiness.
    fn previous(&mut self, pod: &Arc<AdmittedPod>) -> Option<ApiStatus> {
        let is_merged = self.merged.as_ref().is_some_and(|merged| Arc::ptr_eq(merged, pod));
        self.merged = Some(pod.clone());
        match (self.reported.as_ref().map(|reported| &*reported.status), &pod.status) {
            (Some(own), Some(api)) if !is_merged && !pod.is_static => Some(newest(own, api)),
            (Some(own), _) => Some(own.clone()),
            // Continues what an earlier daemon reported.
            (None, given) => given.clone(),
        }
    }
}

/// A sandbox was created in place of the others, which are stopped.
fn replace_sandbox(observed: &mut PodStatus, made: SandboxStatus) {
    for old in &mut observed.sandboxes {
        old.state = SandboxState::NotReady;
    }
    observed.ips.clone_from(&made.ips);
    observed.sandboxes.insert(0, made);
}
