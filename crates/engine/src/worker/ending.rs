//! Terminates a pod: stops its containers and verifies it, releases its resources, removes what the runtime has of it.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodEvent, error_chain};
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_observe::status::{Activity, PodProgress};
use hostlet_pod::{AdmittedPod, Rank, StatusOverride};
use tokio::time::Instant;

use super::cleanup::{Cleanup, EndError};
use super::context::WorkerContext;
use super::plan::leftovers;
use super::state::seen_after;
use super::stop_order::runs;
use super::stopping::Stopping;
use super::{Content, Outcome, WorkerState};
use crate::gate::{PendingStop, Urgency};

/// How long the removal of a deleted pod's containers may wait for a quiet period on a busy node: as long as upstream keeps
/// them.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(60);

/// One step of terminating a pod.
pub(super) struct PodEnd<'a> {
    pub(super) context: &'a WorkerContext,
    /// None for a pod known only from the runtime.
    pub(super) pod: Option<&'a Arc<AdmittedPod>>,
    pub(super) state: &'a mut WorkerState,
}

impl PodEnd<'_> {
    /// Stops the pod's containers and verifies that none is left running.
    pub(super) async fn terminate(
        self,
        grace_seconds: i64,
        status: Option<&StatusOverride>,
        urgency: &Urgency,
    ) -> Outcome {
        let rank = self.pod.map(|pod| pod.rank).unwrap_or_default();
        let stopping = self.context.runtime.stops.begin(rank, urgency.clone());
        let stopped = async {
            let observed = self.state.observe(self.context).await?;
            self.state.reporter.facts.progress = PodProgress::Terminating(status.cloned());
            self.state.reporter.publish_facts();
            let stopped = self.stop_and_verify(&observed, grace_seconds, stopping).await?;
            // Before the status says that the pod has terminated, after which its claims may be given to another pod.
            self.cleanup().claims().await?;
            Ok(stopped)
        };
        let stopped: Result<_, EndError> = stopped.await;
        match stopped {
            // The status is reported with that of the finished pod, which follows at once: one write to the API server.
            Ok((_, stopped)) => {
                self.mark(TimelineStep::Stopped);
                self.state.settled = Some(stopped);
                Outcome::Done { due: None }
            }
            Err(error) => {
                let text = format!("error killing pod: {}", error_chain(&error));
                self.state.reporter.event(None, PodEvent::warning("FailedKillPod", text));
                Outcome::Failed(error.retry())
            }
        }
    }

    /// Reports the facts of the pod's final status, and releases its resources.
    pub(super) async fn finish(mut self, status: Option<&StatusOverride>, content: Content) -> Outcome {
        let finished = async {
            let observed = self.state.observe(self.context).await?;
            self.cleanup().claims().await?;
            let reporter = &mut self.state.reporter;
            let seen = match &reporter.facts.progress {
                // A retry: some of it may be removed by now.
                PodProgress::Terminated { observed, .. } => observed.clone(),
                PodProgress::Active | PodProgress::Terminating(_) => observed.clone(),
            };
            reporter.facts.progress = PodProgress::Terminated { status: status.cloned(), observed: seen };
            reporter.publish_facts();
            reporter.begin(Activity::CleaningUp);
            self.cleanup().resources().await?;
            // Its object may be deleted now. Removing its containers is half of the remaining work and may be deferred: if
            // the daemon dies before, the next one removes them as orphans.
            self.state.reporter.facts.has_released = true;
            self.state.reporter.publish_facts();
            // A container is removed with its termination message, which the status task must have read before.
            self.state.reporter.status_settled().await;
            match content {
                Content::Keep => {
                    let left = leftovers(&observed, &[]);
                    Ok(self.cleanup().leftovers(&observed, &left).await?)
                }
                Content::Remove => {
                    // A static pod's successor waits for this.
                    if !self.pod.is_some_and(|pod| pod.is_static) {
                        let latest = Instant::now() + REMOVAL_PATIENCE;
                        self.context.runtime.quiet_period.begins(latest).await;
                    }
                    self.cleanup().everything(&observed).await
                }
            }
        };
        let finished = finished.await;
        self.conclude(content, finished)
    }

    /// Stops and removes a pod known only from the runtime.
    pub(super) async fn reap(mut self, grace_seconds: i64) -> Outcome {
        let reaped = async {
            let observed = self.state.observe(self.context).await;
            let pod = self.state.reporter.pod();
            // What it has outside the runtime is removed with it, also by a later sweep.
            if let Err(error) = self.context.own.record(pod).await {
                tracing::warn!(%pod, error = error_chain(&error), "cannot record a pod that is removed");
            }
            let cache = self.context.runtime.pleg.cache();
            let observed = observed.or_else(|error| cache.listed(&pod.uid).ok_or(error))?;
            let stopping = self.context.runtime.stops.begin(Rank::default(), Urgency::default());
            let (observed, _) = self.stop_and_verify(&observed, grace_seconds, stopping).await?;
            self.cleanup().claims().await?;
            self.state.reporter.begin(Activity::CleaningUp);
            self.cleanup().resources().await?;
            self.cleanup().everything(&observed).await
        };
        let reaped = reaped.await;
        self.conclude(Content::Remove, reaped)
    }

    fn conclude(&mut self, content: Content, result: Result<(), EndError>) -> Outcome {
        match (result, content) {
            (Ok(()), Content::Keep) => Outcome::Done { due: None },
            (Ok(()), Content::Remove) => {
                self.mark(TimelineStep::Removed);
                Outcome::Done { due: None }
            }
            (Err(error), _) => {
                let text = error_chain(&error);
                let pod = self.state.reporter.pod();
                tracing::warn!(%pod, uid = %pod.uid, error = text, "cannot clean up after the pod; trying again");
                self.state.reporter.failed(text);
                Outcome::Failed(error.retry())
            }
        }
    }

    fn mark(&self, step: TimelineStep) {
        // Ends the previous step, whose duration is known now.
        self.state.reporter.begin(Activity::Idle);
        self.state.reporter.mark(step, String::new());
    }

    fn cleanup(&self) -> Cleanup<'_> {
        Cleanup { context: self.context, reporter: &self.state.reporter }
    }

    /// Stops all of the pod. Returns what was observed after the last stop, and when that stop completed.
    async fn stop_and_verify(
        &self,
        observed: &PodStatus,
        grace_seconds: i64,
        mut place: PendingStop,
    ) -> Result<(Arc<PodStatus>, Instant), EndError> {
        let pod = self.state.reporter.pod();
        let at_work = self.context.runtime.pleg.at_work(pod);
        let stopping = Stopping {
            context: self.context,
            pod: self.pod.map(|pod| &**pod),
            reporter: &self.state.reporter,
            ips: &observed.ips,
        };
        place.containers(stopping.containers(observed, grace_seconds)).await?;
        place.sandboxes(stopping.sandboxes(observed)).await?;
        drop(place);
        let stopped = Instant::now();
        drop(at_work);
        let observed = seen_after(self.context, pod, stopped).await?;
        match observed.containers.iter().find(|c| runs(c.state)) {
            Some(left) => Err(EndError::StillRunning(format!("container {}", left.name))),
            None if observed.may_run() => Err(EndError::StillRunning("the sandbox".to_owned())),
            None => Ok((observed, stopped)),
        }
    }
}
