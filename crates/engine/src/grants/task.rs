//! The grants task: grants new pods what they need, one after the other in the order of admission, and releases what terminated pods had.
//! Does not decide whether a pod runs.

use std::collections::BTreeSet;
use std::time::Duration;

use hostlet_base::{PodUid, error_chain, reasons, sleep_until, watching};
use hostlet_devices::{AllocateError, AllocateFailure, PodStage};
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::view::PodView;
use hostlet_pod::{DesiredPods, Rejection, pod_ref, pod_uid};
use hostlet_resources::{GrantScope, Hint, Managers};
use hostlet_telemetry::Heartbeat;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ended::ended;
use super::handle::Grants;
use super::metrics::{Aligned, GrantMetrics, ManagedResource};
use super::recovery::Recovery;
use super::states::{GrantRequests, GrantState, GrantStates};

/// When to try again to record what a pod is given.
const RECORD_RETRY: Duration = Duration::from_secs(10);

/// Dependencies of the task.
pub(crate) struct GrantsDeps {
    pub grants: Grants,
    /// The pods to grant something.
    pub requests: watch::Receiver<GrantRequests>,
    /// The admitted pods.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// Which pods have terminated.
    pub status_cache: StatusCache,
    /// Where it publishes.
    pub states: watch::Sender<GrantStates>,
    /// What ran before the task.
    pub recovery: Recovery,
    pub metrics: GrantMetrics,
}

/// The task, which the app runs.
pub(crate) struct GrantsTask {
    deps: GrantsDeps,
    /// When what a pod waits for counts as missing, or is tried again.
    overdue: Option<Instant>,
}

impl GrantsTask {
    pub(crate) fn new(deps: GrantsDeps) -> Self {
        Self { deps, overdue: None }
    }

    /// Runs until cancelled.
    pub(crate) async fn run(mut self, heartbeat: Heartbeat, cancel: CancellationToken) {
        let mut devices = self.deps.grants.devices.revision();
        let mut statuses = self.deps.status_cache.changes();
        let mut starting = self.deps.grants.numa.starting();
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => return,
            // Cancel-safe: what was not recovered is recovered by the next daemon.
            () = heartbeat.while_waiting(self.deps.recovery.run(&self.deps.grants.numa)) => {}
        }
        loop {
            devices.mark_unchanged();
            statuses.mark_unchanged();
            starting.mark_unchanged();
            let grants_any = self.deps.grants.grant_anything();
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a grant that was cut short is completed or released by the next round or daemon.
                () = heartbeat.while_waiting(self.update()) => {}
            }
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe as documented there.
                () = heartbeat.asked() => {}
                // These are cancel-safe: a watch marks its value seen only when this returns.
                () = watching::changed(&mut self.deps.requests) => {}
                () = watching::changed(&mut self.deps.desired_pods) => {}
                () = watching::changed(&mut starting) => {}
                // Statuses change all the time; what terminated pods had is released then.
                () = watching::changed(&mut statuses), if grants_any => {}
                () = watching::changed(&mut devices), if self.is_waiting() => {}
                // Cancel-safe: a sleep.
                () = sleep_until(self.overdue), if self.overdue.is_some() => {}
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.deps.states.borrow().values().any(|state| matches!(state, GrantState::NotYet(_)))
    }

    /// Grants whatever is requested and not decided.
    async fn update(&mut self) {
        let requests = self.deps.requests.borrow_and_update().clone();
        self.deps.desired_pods.mark_unchanged();
        self.overdue = None;
        let uids: BTreeSet<PodUid> = requests.iter().map(|pod| pod_uid(pod)).collect();
        self.deps.states.send_if_modified(|states| {
            let before = states.len();
            states.retain(|uid, _| uids.contains(uid));
            states.len() != before
        });
        self.release(&uids).await;
        for pod in requests {
            let uid = pod_uid(&pod);
            match self.deps.states.borrow().get(&uid) {
                Some(GrantState::Granted | GrantState::Rejected(_)) => continue,
                Some(GrantState::NotYet(_)) | None => {}
            }
            let state = self.grant(&pod).await;
            self.deps.states.send_modify(|states| drop(states.insert(uid, state)));
        }
    }

    /// Releases what is of no pod that runs, is to run, or is about to be admitted, and CPUs and memory of containers that ended for good:
    /// upstream keeps these until their pod ends.
    async fn release(&self, requested: &BTreeSet<PodUid>) {
        let Some(mut holders) = self.holders() else { return };
        holders.extend(requested.iter().cloned());
        self.deps.grants.devices.retain(&holders);
        let numa = &self.deps.grants.numa;
        if !numa.settings().are_static() {
            return;
        }
        let mut managers = numa.managers();
        let mut is_changed = managers.retain(|uid| holders.contains(uid));
        is_changed |= numa.release_ended(&mut managers);
        for entry in self.deps.status_cache.all() {
            for container in ended(entry.pod.object(), &entry.status) {
                is_changed |= managers.release_container(entry.pod.reference.uid.as_str(), container);
            }
        }
        if is_changed && let Err(error) = numa.commit(managers).await {
            tracing::error!(error = error_chain(&error), "cannot record which CPUs and memory were released");
        }
    }

    /// The pods that run or are to run; `None` before all of them are known.
    fn holders(&self) -> Option<BTreeSet<PodUid>> {
        let desired = self.deps.desired_pods.borrow();
        if !desired.ready {
            return None;
        }
        let mut terminated = BTreeSet::new();
        let mut holders = BTreeSet::new();
        for entry in self.deps.status_cache.all() {
            let uid = entry.pod.reference.uid.clone();
            match entry.lifecycle {
                LifecycleSummary::Terminated => {
                    terminated.insert(uid);
                }
                LifecycleSummary::Active | LifecycleSummary::Terminating => {
                    holders.insert(uid);
                }
            }
        }
        let desired = desired.pods.iter().map(|pod| pod.reference.uid.clone());
        holders.extend(desired.filter(|uid| !terminated.contains(uid)));
        Some(holders)
    }

    /// Grants a pod all that it needs. What it was granted of that in vain is released with the next request.
    async fn grant(&mut self, pod: &Pod) -> GrantState {
        let mut managers = self.deps.grants.numa.managers();
        self.deps.metrics.requested();
        let began = Instant::now();
        let granted = match self.allocate(&mut managers, pod).await {
            Ok(()) if !self.deps.grants.numa.settings().are_static() => Ok(()),
            Ok(()) => {
                let recorded = self.deps.grants.numa.commit(managers).await;
                recorded.map_err(|error| Ungranted::unrecorded(&error_chain(&error)))
            }
            Err(ungranted) => Err(ungranted),
        };
        self.deps.metrics.decided(granted.is_ok(), began.elapsed());
        let reference = pod_ref(pod);
        match granted {
            Ok(()) => {
                tracing::debug!(pod = %reference, uid = %reference.uid, "a pod was granted what it needs");
                GrantState::Granted
            }
            Err(Ungranted::Rejected(rejection)) => GrantState::Rejected(rejection),
            Err(Ungranted::NotYet { reason, until }) => {
                tracing::info!(pod = %reference, uid = %reference.uid, reason, "a pod waits for what it needs");
                self.overdue = Some(self.overdue.map_or(until, |earlier| earlier.min(until)));
                GrantState::NotYet(reason)
            }
        }
    }

    /// Allocates devices, CPUs and memory to the containers, on the NUMA nodes that suit all of them (upstream's topology manager).
    async fn allocate(&self, managers: &mut Managers, pod: &Pod) -> Result<(), Ungranted> {
        let devices = &self.deps.grants.devices;
        match managers.scope() {
            GrantScope::Anywhere | GrantScope::Container => {
                for container in containers(pod) {
                    let hint = managers.choose(pod, container, devices.hints(pod, &container.name));
                    self.count_alignment(managers, Aligned::Container, hint.is_ok());
                    self.allocate_container(managers, pod, container, hint?).await?;
                }
            }
            GrantScope::Pod => {
                let hint = managers.choose_for_pod(pod, devices.pod_hints(pod));
                self.count_alignment(managers, Aligned::Pod, hint.is_ok());
                let hint = hint?;
                if managers.is_whole(pod) {
                    // Upstream's device manager grants such pods nothing.
                    return self.allocate_whole(managers, pod, hint);
                }
                for container in containers(pod) {
                    self.allocate_container(managers, pod, container, hint).await?;
                }
            }
        }
        Ok(())
    }

    async fn allocate_container(
        &self,
        managers: &mut Managers,
        pod: &Pod,
        container: &Container,
        hint: Hint,
    ) -> Result<(), Ungranted> {
        let devices = &self.deps.grants.devices;
        devices.allocate(pod, &container.name, Some(&hint), PodStage::New).await?;
        let (metrics, cpus) = (&self.deps.metrics, managers.grant_cpus(pod, container, hint));
        if cpus != Ok(false) {
            metrics.pinned_cpus(cpus.is_ok());
            metrics.granted(ManagedResource::Cpu, cpus.is_ok().then_some(1));
            if self.deps.grants.numa.settings().cpus.as_ref().is_some_and(|policy| policy.aligns_cores()) {
                metrics.aligned(Aligned::Cores, cpus.is_ok());
            }
        }
        cpus?;
        let uid = PodView::from(pod).uid;
        if let Some(cpus) = &managers.cpus
            && cpus.state().container(uid, &container.name).is_some_and(|own| cpus.share_cache(own))
        {
            metrics.aligned(Aligned::Cache, true);
        }
        let memory = managers.grant_memory(pod, container, hint);
        if memory != Ok(false) {
            metrics.pinned_memory(memory.is_ok());
            let blocks = managers.memory.as_ref().and_then(|all| all.state().container(uid, &container.name));
            let blocks = blocks.map_or(0, |blocks| blocks.len() as u64);
            metrics.granted(ManagedResource::Memory, memory.is_ok().then_some(blocks));
        }
        memory?;
        Ok(())
    }

    /// Allocates CPUs and memory to a pod with resources of its own.
    fn allocate_whole(&self, managers: &mut Managers, pod: &Pod, hint: Hint) -> Result<(), Ungranted> {
        let metrics = &self.deps.metrics;
        let cpus = managers.grant_pod_cpus(pod, hint);
        if cpus.is_err() {
            metrics.granted_whole(ManagedResource::Cpu, None);
        }
        if cpus? && let Some(cpus) = &managers.cpus {
            let own = cpus.state().pods.get(PodView::from(pod).uid);
            if own.is_some_and(|own| cpus.share_cache(own)) {
                metrics.aligned(Aligned::Cache, true);
            }
            for container in containers(pod) {
                let is_exclusive = cpus.is_exclusive(pod, &container.name);
                metrics.granted_whole(ManagedResource::Cpu, Some(is_exclusive));
            }
        }
        let memory = managers.grant_pod_memory(pod, hint);
        if memory.is_err() {
            metrics.granted_whole(ManagedResource::Memory, None);
        }
        if memory? && let Some(memory) = &managers.memory {
            for container in containers(pod) {
                let is_exclusive = memory.is_exclusive(pod, container);
                metrics.granted_whole(ManagedResource::Memory, Some(is_exclusive));
            }
        }
        Ok(())
    }

    /// Counts whether one NUMA node suits, where the policy requires that.
    fn count_alignment(&self, managers: &Managers, what: Aligned, is_aligned: bool) {
        if managers.guarantees_alignment() {
            self.deps.metrics.aligned(what, is_aligned);
        }
    }
}

/// Why a pod does not have what it needs.
enum Ungranted {
    /// It is looked at again `until` then at the latest.
    NotYet {
        reason: String,
        until: Instant,
    },
    Rejected(Rejection),
}

impl Ungranted {
    /// What was chosen is not durable, as on a full disk: not a fault of the pod.
    fn unrecorded(cause: &str) -> Self {
        let reason = format!("waits, because what it is given cannot be recorded: {cause}");
        Self::NotYet { reason, until: Instant::now() + RECORD_RETRY }
    }
}

impl From<Rejection> for Ungranted {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<AllocateError> for Ungranted {
    fn from(error: AllocateError) -> Self {
        match error {
            AllocateError::NotYet(awaited) => Self::NotYet { reason: awaited.reason, until: awaited.until },
            AllocateError::Failed(failure @ AllocateFailure::Checkpoint { .. }) => {
                Self::unrecorded(&failure.to_string())
            }
            AllocateError::Failed(failure) => Self::Rejected(unexpected(&failure.to_string())),
        }
    }
}

/// Upstream's rejection for what admission did not expect.
fn unexpected(cause: &str) -> Rejection {
    let message = format!("Allocate failed due to {cause}, which is unexpected");
    Rejection::new(reasons::UNEXPECTED_ADMISSION_ERROR, message)
}

/// The containers in the order in which they are granted what they need.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = PodView::from(pod).spec;
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
