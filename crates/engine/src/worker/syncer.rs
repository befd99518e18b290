//! Dispatches the work of pods to the worker's parts.

use std::sync::Arc;

use async_trait::async_trait;
use hostlet_base::{PodRef, PodUid};
use hostlet_pod::{AdmittedPod, PodContainer, RestartPolicy};
use tokio::time::Instant;

use super::context::WorkerContext;
use super::ending::PodEnd;
use super::metrics::WorkKind;
use super::pull_secrets::PodPullSecrets;
use super::sync::PodSync;
use super::task::PodSyncer;
use super::{EnvNeeds, Outcome, Work, WorkerState};
use crate::gate::{PendingStart, StartPriority};

/// What this work does after work on the pod `before`.
fn kind_of(work: &Work, before: Option<&Arc<AdmittedPod>>) -> WorkKind {
    match (work, before) {
        (Work::Sync(_), None) => WorkKind::Create,
        (Work::Sync(pod), Some(before)) if !Arc::ptr_eq(pod, before) => WorkKind::Update,
        (Work::Sync(_), Some(_)) | (Work::Finish { .. }, _) => WorkKind::Sync,
        (Work::Terminate { .. } | Work::Reap { .. }, _) => WorkKind::Kill,
    }
}

#[async_trait]
impl PodSyncer for WorkerContext {
    fn state(&self, pod: &PodRef) -> WorkerState {
        WorkerState::new(self, pod)
    }

    fn expect(&self, work: &Work) -> Option<PendingStart> {
        match work {
            Work::Sync(pod) => Some(self.runtime.starts.expect(StartPriority::of(pod))),
            Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. } => None,
        }
    }

    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome {
        let (kind, began) = (kind_of(work, state.reporter.events().admitted.as_ref()), Instant::now());
        if let (WorkKind::Create, Some(pod)) = (kind, work.admitted()) {
            let cache = self.runtime.pleg.cache();
            // What is left of an earlier life of the pod does not count.
            let is_dead = || cache.get(&pod.reference).is_ok_and(|observed| !observed.may_run());
            if !cache.may_have(&pod.reference.uid) || is_dead() {
                self.metrics.work.began(pod, self.reports.clock.now());
            }
        }
        state.reporter.work_begins(work);
        state.starts.runs_once = work.admitted().is_some_and(|pod| {
            let policy =
                |container: PodContainer<'_>| RestartPolicy::of_container(pod.spec(), container.spec);
            pod.all_containers().any(|container| policy(container) != RestartPolicy::Always)
        });
        match work {
            Work::Sync(pod) => {
                state.env.follow(pod, &*self.env.objects);
                state.pull_secrets.follow(pod, &self.env.objects);
            }
            // None of its containers starts again.
            Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. } => {
                state.env = EnvNeeds::default();
                state.pull_secrets = PodPullSecrets::default();
                state.pulls.cancel();
                state.expected = None;
            }
        }
        let outcome = match work {
            Work::Sync(pod) => PodSync { context: self, pod, state }.run().await,
            Work::Terminate { pod, grace_seconds, status, urgency } => {
                let end = PodEnd { context: self, pod: Some(pod), state };
                end.terminate(*grace_seconds, status.as_ref(), urgency).await
            }
            Work::Finish { pod, status, content } => {
                PodEnd { context: self, pod: Some(pod), state }.finish(status.as_ref(), *content).await
            }
            Work::Reap { grace_seconds, .. } => {
                PodEnd { context: self, pod: None, state }.reap(*grace_seconds).await
            }
        };
        state.reporter.work_ended(&outcome);
        self.metrics.work.ended(kind, began.elapsed());
        outcome
    }

    async fn news(&self) -> PodUid {
        tokio::select! {
            biased;
            // Cancel-safe, all of them: news are taken only when they are returned.
            pod = self.host.volumes.changed() => pod,
            pod = self.host.claims.changed() => pod,
            pod = self.grants.health_changed() => pod,
            pod = self.restarts.news() => pod,
            pod = self.probes.news() => pod,
        }
    }

    fn scheduled(&self, pod: &PodUid, due: Option<Instant>) {
        let at = |due: Instant| {
            let pause = due.saturating_duration_since(Instant::now());
            self.reports.clock.now().checked_add(pause).ok()
        };
        self.reports.activities.schedule(pod, due.and_then(at));
    }
}
