//! Kills a daemon at a chosen await of its workers. Only workers act on pods, so a kill between two awaits is equivalent to one at
//! the second.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use hostlet_base::{PodRef, PodUid};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::gate::PendingStart;
use crate::worker::{Outcome, PodSyncer, Work, WorkerContext, WorkerState};

/// Counts down with each poll of a worker. Clones share the fuse.
#[derive(Clone, Default)]
pub(super) struct Fuse {
    state: Arc<Mutex<State>>,
    blown: Arc<Notify>,
}

#[derive(Default)]
struct State {
    left: Option<usize>,
    is_blown: bool,
}

impl Fuse {
    /// Allows this many further polls of workers.
    pub(super) fn light(&self, polls: usize) {
        *self.lock() = State { left: Some(polls), is_blown: false };
    }

    /// Allows unlimited polls.
    pub(super) fn renew(&self) {
        *self.lock() = State::default();
    }

    /// Whether it has blown.
    pub(super) fn is_blown(&self) -> bool {
        self.lock().is_blown
    }

    /// Whether it was set and has not blown.
    pub(super) fn was_lit_for_nothing(&self) -> bool {
        let state = self.lock();
        state.left.is_some() && !state.is_blown
    }

    /// Waits until it blows.
    pub(super) async fn blown(&self) {
        while !self.is_blown() {
            self.blown.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Counts a poll; returns whether it is allowed.
    fn burn(&self) -> bool {
        let mut state = self.lock();
        match &mut state.left {
            None => return true,
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                return true;
            }
        }
        if !state.is_blown {
            state.is_blown = true;
            self.blown.notify_one();
        }
        false
    }
}

/// Performs the work of pods until the fuse blows.
pub(super) struct Fused {
    pub(super) context: WorkerContext,
    pub(super) fuse: Fuse,
}

#[async_trait]
impl PodSyncer for Fused {
    fn state(&self, pod: &PodRef) -> WorkerState {
        self.context.state(pod)
    }

    fn expect(&self, work: &Work) -> Option<PendingStart> {
        self.context.expect(work)
    }

    async fn perform(&self, work: &Work, state: &mut WorkerState) -> Outcome {
        let mut performing = self.context.perform(work, state);
        let fused = poll_fn(|context| match self.fuse.burn() {
            true => performing.as_mut().poll(context),
            false => Poll::Pending,
        });
        fused.await
    }

    async fn news(&self) -> PodUid {
        self.context.news().await
    }

    fn scheduled(&self, pod: &PodUid, due: Option<Instant>) {
        self.context.scheduled(pod, due);
    }
}
