//! The end of a pod: its containers are stopped and proven stopped, its resources released, what the runtime has of it removed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cleanup::{Cleanup, EndError};
use super::context::WorkerContext;
use super::plan::leftovers;
use super::state::seen_after;
use super::stop_order::runs;
use super::stopping::Stopping;
use super::{Content, Outcome, WorkerState};
use crate::gate::{PendingStop, Urgency};
use crate::pleg::PodStatus;
use crate::pod::{AdmittedPod, Rank, StatusOverride};
use crate::status::timeline::TimelineStep;
use crate::status::{Activity, PodProgress};
use crate::types::{PodEvent, error_chain};

/// How long what the runtime has of a pod that is gone may wait for a quiet period, however busy the node is: as long as upstream
/// lets it lie.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(60);

/// One step towards the end of a pod.
pub(super) struct PodEnd<'a> {
    pub(super) context: &'a WorkerContext,
    /// None of a pod that only the runtime knows.
    pub(super) pod: Option<&'a Arc<AdmittedPod>>,
    pub(super) state: &'a mut WorkerState,
}

impl PodEnd<'_> {
    /// Stops the containers of the pod and proves that none is left running.
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
            self.state.reporter.leave_facts();
            self.stop_and_prove(&observed, grace_seconds, stopping).await
        };
        match stopped.await {
            // What ended is reported with the pod's end, which follows at once: one write to the API server.
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

    /// Leaves what the pod's last status is made from, and releases its resources.
    pub(super) async fn finish(mut self, status: Option<&StatusOverride>, content: Content) -> Outcome {
        let finished = async {
            let observed = self.state.observe(self.context).await?;
            let reporter = &mut self.state.reporter;
            let seen = match &reporter.facts.progress {
                // Tried again: some of it may be removed by now.
                PodProgress::Terminated { observed, .. } => observed.clone(),
                PodProgress::Active | PodProgress::Terminating(_) => observed.clone(),
            };
            reporter.facts.progress = PodProgress::Terminated { status: status.cloned(), observed: seen };
            reporter.leave_facts();
            reporter.begin(Activity::CleaningUp);
            self.cleanup().resources().await?;
            // Its object may go now. Removing what the runtime has of it is half of the work that is left, and nobody
            // waits for that: a daemon that ends meanwhile leaves orphans, which the next one removes.
            self.state.reporter.facts.has_released = true;
            self.state.reporter.leave_facts();
            // What its containers wrote when they ended goes with them: it was read by then.
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

    /// Stops and removes everything of a pod that only the runtime knows.
    pub(super) async fn reap(mut self, grace_seconds: i64) -> Outcome {
        let reaped = async {
            let observed = self.state.observe(self.context).await;
            let pod = self.state.reporter.pod();
            let cache = self.context.runtime.pleg.cache();
            let observed = observed.or_else(|error| cache.listed(&pod.uid).ok_or(error))?;
            let stopping = self.context.runtime.stops.begin(Rank::default(), Urgency::default());
            let (observed, _) = self.stop_and_prove(&observed, grace_seconds, stopping).await?;
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
        // What the step before took is known now.
        self.state.reporter.begin(Activity::Idle);
        self.state.reporter.mark(step, String::new());
    }

    fn cleanup(&self) -> Cleanup<'_> {
        Cleanup { context: self.context, reporter: &self.state.reporter }
    }

    /// Stops all of the pod; what a look later than the last stop then saw, and when that stop ended.
    async fn stop_and_prove(
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
