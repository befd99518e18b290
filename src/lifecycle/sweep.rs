//! The part of housekeeping that touches the disk, beside the table's loop: however slow the disk, no pod waits for it.
//! One sweep at a time. What it may remove the table says, between its two steps.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use super::Janitor;
use crate::pod::AdmittedPod;
use crate::types::{ContainerId, PodUid};

/// What ended.
pub(super) enum Swept {
    /// The look over the host; what it found of pods. The sweep waits for [`Sweep::remove`].
    Found(HashSet<PodUid>),
    /// The sweep.
    Done,
}

enum SweepStep {
    Idle,
    Looking(BoxFuture<'static, HashSet<PodUid>>),
    /// Found, and not yet said what of it may go.
    Found,
    Removing(HashSet<PodUid>, BoxFuture<'static, ()>),
}

/// The sweep under way, if one is.
pub(super) struct Sweep {
    janitor: Arc<dyn Janitor>,
    step: SweepStep,
    sharing: Option<BoxFuture<'static, ()>>,
    /// The pods for the next sharing: those that came while one was under way.
    to_share: Option<Vec<Arc<AdmittedPod>>>,
    /// A sweep was asked for while one was under way.
    is_due_again: bool,
}

impl Sweep {
    pub(super) fn new(janitor: Arc<dyn Janitor>) -> Self {
        Self { janitor, step: SweepStep::Idle, sharing: None, to_share: None, is_due_again: false }
    }

    /// Begins a sweep, or has the one under way followed by another.
    pub(super) fn begin(&mut self) {
        if let SweepStep::Idle = self.step {
            let janitor = self.janitor.clone();
            self.step = SweepStep::Looking(async move { janitor.found().await }.boxed());
        } else {
            self.is_due_again = true;
        }
    }

    /// Goes on with the sweep that found something: these pods are gone for good, these containers run.
    pub(super) fn remove(&mut self, gone: HashSet<PodUid>, running: HashSet<ContainerId>) {
        let (janitor, uids) = (self.janitor.clone(), gone.clone());
        self.step = SweepStep::Removing(gone, async move { janitor.remove(uids, running).await }.boxed());
    }

    /// Whether what is left of this pod is being removed: were it to start now, that would be removed too.
    pub(super) fn is_removing(&self, uid: &PodUid) -> bool {
        match &self.step {
            SweepStep::Removing(gone, _) => gone.contains(uid),
            SweepStep::Idle | SweepStep::Looking(_) | SweepStep::Found => false,
        }
    }

    /// Has what is shared between pods follow these, the newest of them if they come faster than that goes.
    pub(super) fn share(&mut self, active: Vec<Arc<AdmittedPod>>) {
        if self.sharing.is_some() {
            self.to_share = Some(active);
        } else {
            let janitor = self.janitor.clone();
            self.sharing = Some(async move { janitor.share(active).await }.boxed());
        }
    }

    /// The next step that ended; never, while nothing is under way. Cancel-safe: all state is in `self`.
    pub(super) async fn next(&mut self) -> Swept {
        loop {
            tokio::select! {
                biased;
                // Cancel-safe: the future lives in `self`.
                () = under_way(&mut self.sharing) => {
                    self.sharing = None;
                    if let Some(active) = self.to_share.take() {
                        self.share(active);
                    }
                }
                // Cancel-safe: as above.
                swept = self.step.end() => {
                    self.step = match &swept {
                        Swept::Found(_) => SweepStep::Found,
                        Swept::Done => SweepStep::Idle,
                    };
                    if let SweepStep::Idle = self.step && std::mem::take(&mut self.is_due_again) {
                        self.begin();
                    }
                    return swept;
                }
            }
        }
    }
}

impl SweepStep {
    async fn end(&mut self) -> Swept {
        match self {
            Self::Looking(found) => Swept::Found(found.await),
            Self::Removing(_, removed) => {
                removed.await;
                Swept::Done
            }
            Self::Idle | Self::Found => std::future::pending().await,
        }
    }
}

async fn under_way(future: &mut Option<BoxFuture<'static, ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
