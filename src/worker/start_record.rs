//! What a worker knows of the starts of its pod's containers: which have to wait, which must not be repeated, which are under
//! way. The part of a worker's state that a new daemon reads from the store.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;

use super::context::WorkerContext;
use super::crash_loop::CrashLoops;
use super::in_flight::InFlightCalls;
use super::requested_starts::RequestedStarts;
use crate::cri::{ContainerStatus, CriError, RuntimeService};
use crate::gate::StartPriority;
use crate::pleg::PodStatus;
use crate::pod::AdmittedPod;
use crate::status::is_unclear;
use crate::store::{Store, Table};
use crate::sys::file_work;
use crate::types::{ContainerId, PodRef, PodUid};

/// The starts of one pod.
pub(super) struct StartRecord {
    pod: PodUid,
    store: Store,
    /// Back-offs of its containers.
    crash_loops: CrashLoops,
    /// Starts that were asked for, of containers that are to run once.
    requested: RequestedStarts,
    /// Whether its containers must not run again when nobody knows whether they ran.
    pub(super) runs_once: bool,
    /// How many of its starts failed since one succeeded.
    failures: u32,
    /// Calls to the runtime that cancelled work was in the middle of.
    pub(super) in_flight: InFlightCalls,
}

impl StartRecord {
    /// What was stored of the pod.
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

    /// Who has to wait.
    pub(super) fn crash_loops(&self) -> &CrashLoops {
        &self.crash_loops
    }

    /// The pod's place at the start gate: behind others if its starts keep failing.
    pub(super) fn priority(&self, pod: &AdmittedPod) -> StartPriority {
        StartPriority::of(pod).after(self.failures)
    }

    /// A start that had passed the gate failed. What meets a runtime that is away says nothing of the pod.
    pub(super) fn failed(&mut self, error: &CriError) {
        if !matches!(error, CriError::Unreachable { .. }) {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// A start succeeded.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The container that ended is started anew now.
    pub(super) fn restarted(&mut self, ended: &ContainerStatus, now: Timestamp) {
        self.crash_loops.restarted(ended, now);
        self.store.put(Table::CrashLoops, self.pod.as_str(), &self.crash_loops.stored());
    }

    /// A sandbox is made in place of one that will not do.
    pub(super) fn sandbox_replaced(&mut self, now: Timestamp) {
        self.crash_loops.sandbox_replaced(now);
    }

    /// Notes a start before it is asked for, on the disk too, if the container must not run again when nobody knows whether it
    /// ran.
    pub(super) async fn request(
        &mut self,
        id: &ContainerId,
        runtime: &dyn RuntimeService,
        observed: &PodStatus,
    ) {
        if !self.runs_once {
            return;
        }
        self.requested.note(id, runtime.instance().await, observed);
        self.store.put(Table::RequestedStarts, self.pod.as_str(), &self.requested);
        self.store.written().await;
    }

    /// The containers that must not run again and were asked to start, of which nobody knows whether they ran.
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
        let says = |path: &str| std::fs::metadata(path).is_ok_and(|log| log.len() > 0);
        let look = move || logs.into_iter().filter(|(_, path)| says(path)).map(|(id, _)| id).collect();
        let logged: HashSet<ContainerId> = file_work(look).await.unwrap_or_default();
        let is_lost =
            |id: &ContainerId| self.requested.is_lost(id, instance.as_deref()) || logged.contains(id);
        ids.into_iter().filter(is_lost).collect()
    }
}
