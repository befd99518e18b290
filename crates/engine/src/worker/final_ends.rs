//! Remembers how containers of a pod ended for good. Somebody may remove a finished container from the runtime (`crictl rm`, a prune);
//! while its sandbox lives it has run all the same: it does not run a second time, also not by the next daemon, and its status stays
//! what it was. Removes nothing, and decides nothing about containers that the runtime has.

use std::collections::BTreeMap;

use hostlet_base::{PodRef, PodUid, SandboxId};
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::{AdmittedPod, ContainerKind, PodContainer, may_restart_all, restarts_after};
use hostlet_runtime::cri::{ContainerState, ContainerStatus};
use hostlet_store::{Store, Table};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::context::WorkerContext;

/// The final ends of one pod's containers in its present sandbox.
pub(super) struct FinalEnds {
    pod: PodUid,
    store: Store,
    ends: Vec<FinalEnd>,
}

/// How a container ended, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FinalEnd {
    container: String,
    id: String,
    sandbox: String,
    attempt: u32,
    exit_code: i32,
    reason: String,
    message: String,
    created: Timestamp,
    started: Option<Timestamp>,
    finished: Option<Timestamp>,
    image: String,
    image_ref: String,
    hash: Option<u32>,
    log_path: String,
    termination_log: Option<String>,
    termination_policy: String,
}

impl FinalEnds {
    /// Reads what an earlier daemon stored.
    pub(super) fn read(context: &WorkerContext, pod: &PodRef) -> Self {
        let ends = context.store.get(Table::FinalEnds, pod.uid.as_str()).unwrap_or_default();
        Self { pod: pod.uid.clone(), store: context.store.clone(), ends }
    }

    /// The containers that ended for good in the observed sandbox, and that the runtime no longer has.
    pub(super) fn removed(&self, observed: &PodStatus) -> Vec<ContainerStatus> {
        let removed = self.ends.iter().filter(|end| end.is_in(observed) && end.is_removed(observed));
        removed.map(FinalEnd::status).collect()
    }

    /// Takes note of the final ends among the observed containers of a pod that goes on.
    pub(super) fn note(&mut self, pod: &AdmittedPod, observed: &PodStatus) {
        // The containers of such a pod are removed so that they run again.
        if may_restart_all(pod.spec()) {
            return;
        }
        let ends = pod.all_containers().filter_map(|container| {
            let newest = observed.container(&container.spec.name)?;
            is_final(pod, container, newest).then(|| FinalEnd::of(newest)).flatten()
        });
        self.set(pod, ends.filter(|end| end.is_in(observed)).collect());
    }

    /// An init container runs again in the worst case, as it may at any time; that is not worth a write for every pod that has one.
    fn set(&mut self, pod: &AdmittedPod, ends: Vec<FinalEnd>) {
        let stored = |ends: &[FinalEnd]| -> Vec<FinalEnd> {
            let is_init = |end: &FinalEnd| pod.kind_of(&end.container) == Some(ContainerKind::Init);
            ends.iter().filter(|end| !is_init(end)).cloned().collect()
        };
        let (before, now) = (stored(&self.ends), stored(&ends));
        self.ends = ends;
        if before != now {
            self.store.put(Table::FinalEnds, self.pod.as_str(), &now);
        }
    }
}

/// Whether a container that ended like this never runs again in its sandbox.
fn is_final(pod: &AdmittedPod, container: PodContainer<'_>, seen: &ContainerStatus) -> bool {
    let restarts = || restarts_after(pod.spec(), container.spec, seen.exit_code);
    seen.state == ContainerState::Exited
        && match container.kind {
            ContainerKind::Init => seen.exit_code == 0 || !restarts(),
            ContainerKind::Main => !restarts(),
            ContainerKind::Ephemeral => true,
            ContainerKind::Sidecar => false,
        }
}

impl FinalEnd {
    /// None without a sandbox.
    fn of(seen: &ContainerStatus) -> Option<Self> {
        Some(Self {
            container: seen.name.to_string(),
            id: seen.id.to_string(),
            sandbox: seen.sandbox.as_ref()?.to_string(),
            attempt: seen.attempt,
            exit_code: seen.exit_code,
            reason: seen.reason.clone(),
            message: seen.message.clone(),
            created: seen.created_at,
            started: seen.started_at,
            finished: seen.finished_at,
            image: seen.image.clone(),
            image_ref: seen.image_ref.clone(),
            hash: seen.hash,
            log_path: seen.log_path.clone(),
            termination_log: seen.termination_log.clone(),
            termination_policy: seen.termination_policy.clone(),
        })
    }

    fn is_in(&self, observed: &PodStatus) -> bool {
        observed.sandbox().is_some_and(|sandbox| sandbox.id.as_str() == self.sandbox)
    }

    fn is_removed(&self, observed: &PodStatus) -> bool {
        observed.container(&self.container).is_none()
    }

    fn status(&self) -> ContainerStatus {
        ContainerStatus {
            id: self.id.as_str().into(),
            name: self.container.as_str().into(),
            attempt: self.attempt,
            sandbox: Some(SandboxId::from(self.sandbox.as_str())),
            state: ContainerState::Exited,
            created_at: self.created,
            started_at: self.started,
            finished_at: self.finished,
            exit_code: self.exit_code,
            reason: self.reason.clone(),
            message: self.message.clone(),
            image: self.image.clone(),
            image_ref: self.image_ref.clone(),
            hash: self.hash,
            log_path: self.log_path.clone(),
            termination_log: self.termination_log.clone(),
            termination_policy: self.termination_policy.clone(),
            grace_seconds: None,
            pre_stop: None,
            user: None,
            stop_signal: None,
            image_mounts: BTreeMap::new(),
        }
    }
}
