//! The task of one pod's worker: receives work, performs it, reports the outcome. One task per pod UID, so that work on a pod
//! never overlaps.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use hostlet_base::{PodRef, PodUid};
use hostlet_telemetry::Span;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Outcome, Retry, Work, WorkerState};
use crate::gate::PendingStart;

/// Performs the work of pods. Shared by all pods; what is kept of a pod between two pieces of work is its [`WorkerState`].
#[async_trait]
pub(crate) trait PodSyncer: Send + Sync + 'static {
    /// The state for a pod seen for the first time.
    fn state(&self, pod: &PodRef) -> WorkerState;

    /// Announces the start that the first work of a pod may be. Called for one pod after the other, the most important first, before any
    /// of them is worked on: whose worker runs first is up to the scheduler of tasks.
    fn expect(&self, work: &Work) -> Option<PendingStart> {
        let _ = work;
        None
    }

    /// Performs `work`. Dropping the future cancels it: calls that must survive that are kept in the state; the effect of
    /// others shows in the next observation.
    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome;

    /// The next pod with news of something outside the runtime that its work may wait for. Has one reader. Cancel-safe.
    async fn news(&self) -> PodUid;

    /// Shows when the pod's next work begins; none while it is under way.
    fn scheduled(&self, pod: &PodUid, due: Option<Instant>) {
        let (_, _) = (pod, due);
    }
}

/// Work and its cancellation token.
#[derive(Debug)]
pub(crate) struct Job {
    pub work: Work,
    /// Cancelled when newer work makes this moot.
    pub cancel: CancellationToken,
}

/// A worker's report to the pod table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Its work completed.
    Done(Outcome),
    /// Something that its last work lacked has become available: it should work again.
    News,
}

/// Performs jobs until the inbox is closed, and reports. The pod's pulls go on beside the jobs and between them. `died` is when an
/// earlier worker of the pod died, if one did: the first observation has to be newer. `expected` announces its first start.
pub(crate) async fn run(
    pod: PodRef,
    syncer: Arc<dyn PodSyncer>,
    inbox: mpsc::Receiver<Job>,
    reports: mpsc::Sender<(PodUid, Report)>,
    died: Option<Instant>,
    expected: Option<PendingStart>,
) {
    let mut state = syncer.state(&pod);
    (state.last_work, state.expected) = (died, expected);
    let pulls = state.pulls.clone();
    tokio::select! {
        biased;
        // Cancel-safe: the other arm never ends.
        () = perform_jobs(&pod, &*syncer, inbox, &reports, state) => {}
        never = pulls.drive() => match never {},
    }
}

/// Performs jobs until the inbox is closed. A panic counts as a failure of that work alone.
async fn perform_jobs(
    pod: &PodRef,
    syncer: &dyn PodSyncer,
    mut inbox: mpsc::Receiver<Job>,
    reports: &mpsc::Sender<(PodUid, Report)>,
    mut state: WorkerState,
) {
    loop {
        let job = tokio::select! {
            biased;
            // Cancel-safe: a job is taken only when it is returned.
            job = inbox.recv() => job,
            // Cancel-safe: news is consumed only when this returns.
            () = state.env.news() => {
                if reports.send((pod.uid.clone(), Report::News)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(Job { work, cancel }) = job else { return };
        let span = span(&work);
        let performed = {
            // Boxed, so that an idle worker does not take the space of a busy one. The state is plain values: a panic can lose
            // an update, but break no invariant.
            let performing = AssertUnwindSafe(span.around(syncer.perform(&work, &mut state))).catch_unwind();
            tokio::select! {
                biased;
                // Cancel-safe: dropping the work is how it is cancelled.
                () = cancel.cancelled() => Ok(Outcome::Cancelled),
                performed = performing => performed,
            }
        };
        state.starts.in_flight.finish().await;
        // Whatever the outcome, the next work needs an observation as of now, unless the work has made that already.
        state.last_work = Some(state.settled.take().unwrap_or_else(Instant::now));
        let outcome = performed.unwrap_or_else(|panic| {
            let panic = panic_text(&*panic);
            tracing::error!(pod = %pod, uid = %pod.uid, panic, "the pod's worker panicked; it will try again");
            Outcome::Failed(Retry::BackOff)
        });
        match outcome {
            Outcome::Failed(_) => span.failed("it will be tried again"),
            Outcome::Done { .. }
            | Outcome::PodEnded
            | Outcome::DeadlineExceeded
            | Outcome::Rejected(_)
            | Outcome::Cancelled => {}
        }
        drop(span);
        if reports.send((pod.uid.clone(), Report::Done(outcome))).await.is_err() {
            return;
        }
    }
}

/// The trace of work, with upstream's name and attributes.
fn span(work: &Work) -> Span {
    let name = match work {
        Work::Sync(_) => "syncPod",
        Work::Terminate { .. } => "syncTerminatingPod",
        Work::Finish { .. } => "syncTerminatedPod",
        Work::Reap { .. } => "syncTerminatingRuntimePod",
    };
    Span::root(name, || {
        let PodRef { namespace, name, uid } = work.pod();
        vec![
            ("k8s.pod.uid", uid.to_string()),
            ("k8s.pod", format!("{namespace}/{name}")),
            ("k8s.pod.name", name.to_string()),
            ("k8s.namespace.name", namespace.to_string()),
        ]
    })
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown".to_owned())
}
