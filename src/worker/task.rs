//! The task of one pod's worker: takes work, performs it, tells how it ended. One task a pod UID, so that work of one
//! pod never overlaps.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Outcome, Retry, Work, WorkerState};
use crate::types::{PodRef, PodUid};

/// Performs the work of pods. All pods share one; what it keeps of a pod between two pieces of work is in its [`WorkerState`].
#[async_trait]
pub trait PodSyncer: Send + Sync + 'static {
    /// The state of a pod heard of for the first time.
    fn state(&self, pod: &PodRef) -> WorkerState;

    /// Performs `work`. Dropping the future cancels it: calls that should not end half-way are kept in the state, and
    /// whatever came of the others is found by the next look at the runtime.
    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome;

    /// The next pod that has news of something beside the runtime which its work may wait for. Has one reader. Cancel-safe.
    async fn news(&self) -> PodUid;

    /// Takes in when the pod's next work begins; none while it is under way. For showing only.
    fn scheduled(&self, pod: &PodUid, due: Option<Instant>) {
        let (_, _) = (pod, due);
    }
}

/// Work, and how to end it early.
#[derive(Debug)]
pub struct Job {
    /// The work.
    pub work: Work,
    /// Cancelled when newer work makes this moot.
    pub cancel: CancellationToken,
}

/// What a worker tells the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Its work ended.
    Done(Outcome),
    /// There is news of something that its last work lacked: it should work again.
    News,
}

/// Performs jobs until the inbox is closed, and reports. A panic in the work is reported and counts as a failure of that work alone.
/// `died` is when a worker of the pod before this one died, if one did: like work of its own, what that did is to be seen first.
pub async fn run(
    pod: PodRef,
    syncer: Arc<dyn PodSyncer>,
    mut inbox: mpsc::Receiver<Job>,
    reports: mpsc::Sender<(PodUid, Report)>,
    died: Option<Instant>,
) {
    let mut state = syncer.state(&pod);
    state.last_work = died;
    loop {
        let job = tokio::select! {
            biased;
            // Cancel-safe: a job is taken only when it is returned.
            job = inbox.recv() => job,
            // Cancel-safe: news stay news until they were told.
            () = state.env.news() => {
                if reports.send((pod.uid.clone(), Report::News)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(Job { work, cancel }) = job else { return };
        let performed = {
            // Boxed, so that an idle worker does not hold the space of a busy one. The state is plain values, of which
            // a panic in the middle can lose an update but break none.
            let performing = AssertUnwindSafe(syncer.perform(&work, &mut state)).catch_unwind();
            tokio::select! {
                biased;
                // Cancel-safe: dropping the work is how it is cancelled.
                () = cancel.cancelled() => Ok(Outcome::Cancelled),
                performed = performing => performed,
            }
        };
        state.starts.in_flight.finish().await;
        // However the work ended: what comes next wants to see the runtime as of now, with whatever a cancelled call did;
        // unless that was seen already.
        state.last_work = Some(state.settled.take().unwrap_or_else(Instant::now));
        let outcome = performed.unwrap_or_else(|panic| {
            let panic = panic_text(&*panic);
            tracing::error!(pod = %pod, uid = %pod.uid, panic, "the pod's worker panicked; it will try again");
            Outcome::Failed(Retry::BackOff)
        });
        if reports.send((pod.uid.clone(), Report::Done(outcome))).await.is_err() {
            return;
        }
    }
}

/// What a panic says.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown".to_owned())
}
