//! What a worker keeps of its pod from one piece of work to the next. All of it can be lost: a new daemon starts with none
//! but what was stored.

use std::sync::Arc;

use tokio::time::Instant;

use super::EnvNeeds;
use super::context::WorkerContext;
use super::reporter::Reporter;
use super::start_record::StartRecord;
use crate::pleg::Observed;
use crate::status::as_it_was;
use crate::types::PodRef;

/// A worker's state.
pub struct WorkerState {
    /// Says what becomes of the pod.
    pub(super) reporter: Reporter,
    /// The starts of its containers.
    pub(super) starts: StartRecord,
    /// What its containers' environments are made from.
    pub(super) env: EnvNeeds,
    /// When the last work ended, was cancelled or panicked: the next one wants to see the runtime as of later.
    pub(super) last_work: Option<Instant>,
    /// The last change that the present work made, set by work that then saw what came of it and changed nothing more:
    /// what it saw is good enough for the next.
    pub(super) settled: Option<Instant>,
}

impl WorkerState {
    /// That of a pod heard of for the first time by this daemon.
    pub(super) fn new(context: &WorkerContext, pod: &PodRef) -> Self {
        Self {
            reporter: Reporter::new(pod.clone(), context.reports.clone()),
            starts: StartRecord::read(context, pod),
            env: EnvNeeds::default(),
            last_work: None,
            settled: None,
        }
    }

    /// The pod as the runtime has it after our last work on it ended, with what really came of starts that were cut short.
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
        let was = as_it_was(&observed, |container| facts.lost_starts.contains(&container.id));
        Ok(was.map_or(observed, Arc::new))
    }
}

/// What a look later than `time` saw. Of a pod that could not be inspected for long it is what was listed, which tells what
/// there is and what runs.
pub(super) async fn seen_after(context: &WorkerContext, pod: &PodRef, time: Instant) -> Observed {
    let cache = context.runtime.pleg.cache();
    let observed = cache.newer_than(pod, Some(time)).await;
    observed.or_else(|error| cache.listed(&pod.uid).ok_or(error))
}
