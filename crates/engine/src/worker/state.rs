//! What a worker keeps of its pod between two pieces of work. All of it may be lost: a new daemon starts with what was stored.

use std::sync::Arc;

use hostlet_base::PodRef;
use hostlet_observe::pleg::Observed;
use hostlet_observe::status::with_actual_outcomes;
use hostlet_pod::Rejection;
use tokio::time::Instant;

use super::EnvNeeds;
use super::actuated::ActuatedRecord;
use super::context::WorkerContext;
use super::deadline::ActiveTime;
use super::final_ends::FinalEnds;
use super::pod_pulls::PodPulls;
use super::pull_secrets::PodPullSecrets;
use super::reporter::Reporter;
use super::start_record::StartRecord;
use crate::gate::PendingStart;

/// A worker's state.
pub(crate) struct WorkerState {
    /// Publishes the pod's facts, activity and events.
    pub(super) reporter: Reporter,
    /// The starts of its containers.
    pub(super) starts: StartRecord,
    /// How its containers ended for good.
    pub(super) ends: FinalEnds,
    /// How long it has been active.
    pub(super) active: ActiveTime,
    /// What was last enforced of its resources.
    pub(super) actuated: ActuatedRecord,
    /// The objects that its containers' environments refer to.
    pub(super) env: EnvNeeds,
    /// The Secrets for the pulls of its images.
    pub(super) pull_secrets: PodPullSecrets,
    /// The pulls of its images.
    pub(super) pulls: PodPulls,
    /// Whether what must exist before anything of the pod runs was made by this worker, or found.
    pub(super) is_prepared: bool,
    /// Why the pod cannot run on this node, found by the present work.
    pub(super) rejection: Option<Rejection>,
    /// Announces its first start until an observation has shown whether it needs one.
    pub(super) expected: Option<PendingStart>,
    /// When the last work completed, was cancelled or panicked: the next one needs a newer observation.
    pub(super) last_work: Option<Instant>,
    /// When the present work made its last change, set by work that has observed the result: the next one needs no newer
    /// observation than that.
    pub(super) settled: Option<Instant>,
}

impl WorkerState {
    /// The state for a pod that this daemon sees for the first time.
    pub(super) fn new(context: &WorkerContext, pod: &PodRef) -> Self {
        Self {
            reporter: Reporter::new(pod.clone(), context.reports.clone()),
            starts: StartRecord::read(context, pod),
            ends: FinalEnds::read(context, pod),
            active: ActiveTime::default(),
            actuated: ActuatedRecord::read(context, pod),
            env: EnvNeeds::default(),
            pull_secrets: PodPullSecrets::default(),
            pulls: PodPulls::default(),
            is_prepared: false,
            rejection: None,
            expected: None,
            last_work: None,
            settled: None,
        }
    }

    /// The pod as observed after our last work on it, with the real outcome of starts that were cut short, and with the finished
    /// containers that somebody removed.
    pub(super) async fn observe(&mut self, context: &WorkerContext) -> Observed {
        let cache = context.runtime.pleg.cache();
        let pod = self.reporter.pod();
        if !cache.is_newer(pod, self.last_work) {
            context.runtime.pleg.relist(pod);
        }
        let observed = cache.newer_than(pod, self.last_work).await?;
        let facts = &mut self.reporter.facts;
        facts.lost_starts = self.starts.lost(&observed, &*context.runtime.service).await;
        facts.made_sandbox = None;
        // Cut short, and not run again, as upstream.
        facts.post_starting.clear();
        let actual = with_actual_outcomes(&observed, |container| facts.lost_starts.contains(&container.id));
        let mut observed = actual.map_or(observed, Arc::new);
        let removed = self.ends.removed(&observed);
        if !removed.is_empty() {
            Arc::make_mut(&mut observed).containers.extend(removed.iter().cloned());
        }
        facts.removed = removed;
        self.starts.observe(&observed, self.reporter.now(), self.reporter.steady());
        Ok(observed)
    }
}

/// The pod as observed after `time`. For a pod that could not be inspected for long, what was listed of it: enough to know
/// what exists and what runs.
pub(super) async fn seen_after(context: &WorkerContext, pod: &PodRef, time: Instant) -> Observed {
    let cache = context.runtime.pleg.cache();
    let observed = cache.newer_than(pod, Some(time)).await;
    observed.or_else(|error| cache.listed(&pod.uid).ok_or(error))
}
