//! The part of housekeeping that touches the disk. It runs next to the table's loop, so that no pod waits for a slow disk.
//! One sweep at a time; between its two steps the table decides what may be removed.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use super::janitor::{Janitor, KnownPods};
use hostlet_base::PodUid;
use hostlet_pod::AdmittedPod;

/// The step of a sweep that completed.
pub(super) enum Swept {
    /// The host was listed, and has something of these pods. The sweep waits for [`Sweep::remove`].
    Found(HashSet<PodUid>),
    /// The sweep is complete.
    Done,
}

enum SweepStep {
    Idle,
    Listing(BoxFuture<'static, HashSet<PodUid>>),
    /// Waits for the table to decide what may be removed.
    Found,
    Removing(HashSet<PodUid>, BoxFuture<'static, ()>),
}

/// The sweep under way, if one is.
pub(super) struct Sweep {
    janitor: Arc<dyn Janitor>,
    step: SweepStep,
    sharing: Option<BoxFuture<'static, ()>>,
    /// The pods for the next update, which arrived while one was under way.
    to_share: Option<Vec<Arc<AdmittedPod>>>,
    /// A sweep was requested while one was under way.
    is_due_again: bool,
}

impl Sweep {
    pub(super) fn new(janitor: Arc<dyn Janitor>) -> Self {
        Self { janitor, step: SweepStep::Idle, sharing: None, to_share: None, is_due_again: false }
    }

    /// Begins a sweep, or another one after that under way.
    pub(super) fn begin(&mut self) {
        if let SweepStep::Idle = self.step {
            let janitor = self.janitor.clone();
            self.step = SweepStep::Listing(async move { janitor.found().await }.boxed());
        } else {
            self.is_due_again = true;
        }
    }

    /// Second step: removes what is left of the `unknown` pods.
    pub(super) fn remove(&mut self, unknown: HashSet<PodUid>, known: KnownPods) {
        let (janitor, uids) = (self.janitor.clone(), unknown.clone());
        self.step = SweepStep::Removing(unknown, async move { janitor.remove(uids, known).await }.boxed());
    }

    /// Whether this pod's remains may be being removed. If it started now, its new files would be removed too.
    pub(super) fn is_removing(&self, uid: &PodUid) -> bool {
        match &self.step {
            SweepStep::Removing(removed, _) => removed.contains(uid),
            SweepStep::Idle | SweepStep::Listing(_) | SweepStep::Found => false,
        }
    }

    /// Updates what pods share for this set of active pods. While an update is under way only the newest set is kept.
    pub(super) fn share(&mut self, active: Vec<Arc<AdmittedPod>>) {
        if self.sharing.is_some() {
            self.to_share = Some(active);
        } else {
            let janitor = self.janitor.clone();
            self.sharing = Some(async move { janitor.share(active).await }.boxed());
        }
    }

    /// The next step that completes; pending while nothing is under way. Cancel-safe: all state is in `self`.
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
            Self::Listing(found) => Swept::Found(found.await),
            Self::Removing(_, removal) => {
                removal.await;
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
