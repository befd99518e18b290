//! What a worker knows of the starts of its pod's containers: which have to wait, which must not be repeated, which calls are in
//! flight. The part of a worker's state that is persisted.

use std::collections::{BTreeSet, HashSet};

use hostlet_base::{ContainerId, PodRef, PodUid};
use hostlet_host::file_work;
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::is_unclear;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::Enforced;
use hostlet_runtime::cri::{ContainerStatus, CriError, RuntimeService};
use hostlet_store::{Store, Table};
use jiff::Timestamp;

use super::context::WorkerContext;
use super::crash_loop::CrashLoops;
use super::in_flight::InFlightCalls;
use super::requested_starts::RequestedStarts;
use crate::gate::StartPriority;

/// The starts of one pod.
pub(super) struct StartRecord {
    pod: PodUid,
    store: Store,
    /// Back-offs of its containers.
    crash_loops: CrashLoops,
    /// Requested starts of containers that run at most once.
    requested: RequestedStarts,
    /// Whether its containers run at most once: one that may have run must not be started again.
    pub(super) runs_once: bool,
    /// Failed starts since the last successful one.
    failures: u32,
    /// Calls in flight of cancelled work.
    pub(super) in_flight: InFlightCalls,
}

impl StartRecord {
    /// Reads the stored part from the store.
    pub(super) fn read(context: &WorkerContext, pod: &PodRef) -> Self {
        let stored = context.store.get(Table::CrashLoops, pod.uid.as_str());
        let requested = context.store.get(Table::RequestedStarts, pod.uid.as_str());
        Self {
            pod: pod.uid.clone(),
            store: context.store.clone(),
            crash_loops: CrashLoops::new(context.crash_loop_cap, stored.unwrap_or_default()),
            requested: requested.unwrap_or_default(),
            runs_once: false,
            failures: 0,
            in_flight: InFlightCalls::default(),
        }
    }

    /// The back-offs in force.
    pub(super) fn crash_loops(&self) -> &CrashLoops {
        &self.crash_loops
    }

    /// Takes in what the runtime has, at this time of the wall clock and of the steady one.
    pub(super) fn observe(&mut self, observed: &PodStatus, wall: Timestamp, steady: Timestamp) {
        self.crash_loops.observe(&observed.containers, wall, steady);
    }

    /// Begins work on the pod with its allocated resources.
    pub(super) fn work_begins(&mut self, pod: &AdmittedPod) {
        for container in pod.containers() {
            self.crash_loops.set_resources(&container.spec.name, Enforced::of(pod, container.spec));
        }
    }

    /// The pod's priority at the start gate: behind others if its starts keep failing.
    pub(super) fn priority(&self, pod: &AdmittedPod) -> StartPriority {
        StartPriority::of(pod).with_failures(self.failures)
    }

    /// A start that had passed the gate failed. An unreachable runtime does not count against the pod.
    pub(super) fn failed(&mut self, error: &CriError) {
        if !matches!(error, CriError::Unreachable { .. }) {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// A start succeeded.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The terminated container is restarted now.
    pub(super) fn restarted(&mut self, ended: &ContainerStatus, now: Timestamp) {
        self.crash_loops.restarted(ended, now);
        self.store_crash_loops();
    }

    /// A container whose probe failed is restarted now. `before` is the instance before the one that failed.
    pub(super) fn restarted_after(
        &mut self,
        before: &ContainerStatus,
        failed: &ContainerStatus,
        now: Timestamp,
    ) {
        self.crash_loops.restarted_after(before, failed, now);
        self.store_crash_loops();
    }

    /// An instance is followed by another for a reason other than its end.
    pub(super) fn replaced(&mut self, instance: &ContainerStatus, now: Timestamp) {
        self.crash_loops.replaced(instance, now);
        self.store_crash_loops();
    }

    fn store_crash_loops(&self) {
        self.store.put(Table::CrashLoops, self.pod.as_str(), &self.crash_loops.stored());
    }

    /// A sandbox was created in place of an earlier one.
    pub(super) fn sandbox_replaced(&mut self, now: Timestamp) {
        self.crash_loops.sandbox_replaced(now);
    }

    /// Records a start before it is requested, also on disk, if the container runs at most once.
    pub(super) async fn request(
        &mut self,
        id: &ContainerId,
        runtime: &dyn RuntimeService,
        observed: &PodStatus,
    ) {
        if !self.runs_once {
            return;
        }
        self.requested.record(id, runtime.instance().await, observed);
        self.store.put(Table::RequestedStarts, self.pod.as_str(), &self.requested);
        self.store.written().await;
    }

    /// The run-once containers whose start was requested and that may have run, though the runtime lists them as created.
    pub(super) async fn lost(
        &self,
        observed: &PodStatus,
        runtime: &dyn RuntimeService,
    ) -> BTreeSet<ContainerId> {
        let unclear = observed.containers.iter().filter(|c| self.runs_once && is_unclear(c));
        let logs: Vec<_> = unclear.map(|c| (c.id.clone(), c.log_path.clone())).collect();
        if logs.is_empty() {
            return BTreeSet::new();
        }
        let instance = runtime.instance().await;
        let ids: Vec<_> = logs.iter().map(|(id, _)| id.clone()).collect();
        let has_output = |path: &str| std::fs::metadata(path).is_ok_and(|log| log.len() > 0);
        let find_logged =
            move || logs.into_iter().filter(|(_, path)| has_output(path)).map(|(id, _)| id).collect();
        let logged: HashSet<ContainerId> = file_work(find_logged).await.unwrap_or_default();
        let is_lost =
            |id: &ContainerId| self.requested.is_lost(id, instance.as_deref()) || logged.contains(id);
        ids.into_iter().filter(is_lost).collect()
    }
}
