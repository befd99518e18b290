//! Grows the volumes of pods that are paths of this host (`local`) with their claims: before a pod uses one, and while it does (upstream
//! `NodeExpand` of the plugin). Of a device that is its filesystem; a directory has no size of its own, and only its claim changes. What
//! claims say, and learn, is behind [`Expansions`](hostlet_csi::Expansions).

use std::sync::Arc;

use futures::future::BoxFuture;
use hostlet_base::{Backoff, PodUid, error_chain, sleep_until};
use hostlet_csi::{ClaimUpdateError, GrowError, LOOK_PERIOD, LOOK_TIMEOUT, Look, Moment, NodeSize};
use hostlet_host::file_work;
use tokio::time::{Instant, timeout};

use super::error::{HostError, VolumeProblem, VolumeStep};
use super::execute::unmark;
use super::external::{Means, is_block_device};
use super::model::{Growable, GrowableForm};
use super::shared::{RETRY, Shared, spread};

/// Why a volume did not grow.
enum NotGrown {
    /// The API server says nothing, or did not take the result.
    Claim(String),
    /// It cannot have its size.
    Failed(String),
}

impl From<ClaimUpdateError> for NotGrown {
    fn from(error: ClaimUpdateError) -> Self {
        Self::Claim(error.to_string())
    }
}

/// Grows a volume that is in place for a pod and not used by it yet, if it is to grow. As upstream, a pod does not use it before that; but
/// hostlet's pods do not wait for the API server.
pub(super) async fn before_use(
    shared: &Arc<Shared>,
    uid: &PodUid,
    volume: &Growable,
) -> Result<(), VolumeProblem> {
    match grow(shared, uid, volume, Moment::Mounting).await {
        Ok(()) => Ok(()),
        Err(NotGrown::Claim(text)) => {
            tracing::warn!(volume = volume.claim.volume, "{text}; the pod uses the volume meanwhile");
            Ok(())
        }
        Err(NotGrown::Failed(cause)) => {
            let step = match &volume.form {
                GrowableForm::Mounted { ready, .. } => {
                    // The next attempt begins here again.
                    let ready = ready.clone();
                    let unmarked = file_work(move || unmark(&ready)).await.unwrap_or(Ok(()));
                    unmarked.map_err(|error| VolumeProblem::new(&volume.claim.volume, &error))?;
                    VolumeStep::ExpandMounted
                }
                GrowableForm::Device => VolumeStep::ExpandMapped,
            };
            Err(VolumeProblem::Volume { step, volume: volume.claim.volume.clone(), cause })
        }
    }
}

/// Grows a volume if its claim says so.
async fn grow(shared: &Arc<Shared>, uid: &PodUid, volume: &Growable, at: Moment) -> Result<(), NotGrown> {
    let Some(expansions) = &shared.expansions else { return Ok(()) };
    let (claim, name) = (&volume.claim, &volume.claim.volume);
    let size = shared.sizes.get(name);
    let look = expansions.look(claim, at, size);
    let look = match at {
        Moment::Mounting => timeout(LOOK_TIMEOUT, look).await.map_err(|_elapsed| {
            NotGrown::Claim("the API server does not tell the size of the claim".to_owned())
        })?,
        Moment::InUse => look.await,
    };
    let growth = match look? {
        Look::Unchanged(known) => {
            shared.sizes.set(name, NodeSize { known: known.or(size.known), ..size });
            return Ok(());
        }
        Look::Grow(growth) => growth,
    };
    let work = {
        let (shared, volume) = (shared.clone(), volume.clone());
        move || grow_on_host(&volume, shared.means())
    };
    let threads = &shared.threads.local_volumes;
    let done = threads.run(uid.as_str(), &volume.path, &volume.path, work).await;
    // It may still be in progress.
    let done = done.map_err(|error| NotGrown::Failed(error_chain(&error)))?;
    let result = done.map_err(|error| GrowError::Host(error_chain(&error)));
    let published = expansions.grown(claim, at, &growth, &result).await;
    match result {
        Ok(()) => {
            published?;
            shared.sizes.set(name, NodeSize { known: Some(growth.size), has_failed: false });
            Ok(())
        }
        Err(error) => {
            shared.sizes.set(name, NodeSize { has_failed: true, ..size });
            Err(NotGrown::Failed(error.to_string()))
        }
    }
}

/// Makes the filesystem as large as its device. Blocking.
pub(super) fn grow_on_host(volume: &Growable, host: Means<'_>) -> Result<(), HostError> {
    let GrowableForm::Mounted { at, .. } = &volume.form else { return Ok(()) };
    if is_block_device(&volume.path)? {
        host.devices.with(&volume.claim.volume, || host.disks.grow(&volume.path, at))?;
    }
    Ok(())
}

/// Looks from time to time whether the volumes that a pod uses are to grow.
pub(super) struct Growing {
    shared: Arc<Shared>,
    uid: PodUid,
    volumes: Vec<Growable>,
    due: Option<Instant>,
    backoff: Option<Backoff<Instant>>,
    work: Option<BoxFuture<'static, bool>>,
}

impl Growing {
    pub(super) fn new(shared: Arc<Shared>, uid: PodUid) -> Self {
        Self { shared, uid, volumes: Vec::new(), due: None, backoff: None, work: None }
    }

    /// The pod uses these from now on.
    pub(super) fn follow(&mut self, all: impl IntoIterator<Item = Growable>) {
        // As upstream, only pods that may write to it let a volume grow.
        let volumes: Vec<Growable> = all.into_iter().filter(|volume| !volume.claim.read_only).collect();
        if volumes == self.volumes {
            return;
        }
        let gone = self.volumes.iter().filter(|volume| !volumes.contains(volume));
        gone.for_each(|volume| self.shared.sizes.forget(&volume.claim.volume));
        let can_grow = self.shared.expansions.is_some() && !volumes.is_empty();
        self.due = can_grow.then(|| self.next_look());
        (self.volumes, self.backoff, self.work) = (volumes, None, None);
    }

    /// Looks once it is time to. Cancel-safe: what was begun continues with the next call.
    pub(super) async fn step(&mut self) {
        if self.work.is_none() {
            sleep_until(self.due).await;
            let (shared, uid, volumes) = (self.shared.clone(), self.uid.clone(), self.volumes.clone());
            self.work = Some(Box::pin(async move {
                let mut is_done = true;
                for volume in &volumes {
                    is_done &= grow_in_use(&shared, &uid, volume).await;
                }
                is_done
            }));
        }
        let Some(work) = &mut self.work else { return };
        let is_done = work.await;
        self.work = None;
        if is_done {
            self.backoff = None;
            self.due = Some(self.next_look());
        } else {
            let now = Instant::now();
            let backoff = Backoff::next(self.backoff, &RETRY, now, now);
            (self.backoff, self.due) = (Some(backoff), Some(now + backoff.delay));
        }
    }

    fn next_look(&self) -> Instant {
        Instant::now() + LOOK_PERIOD.mul_f64(0.5 + spread(&self.uid))
    }
}

/// Returns whether nothing remains to be done now.
async fn grow_in_use(shared: &Arc<Shared>, uid: &PodUid, volume: &Growable) -> bool {
    let name = &volume.claim.volume;
    match grow(shared, uid, volume, Moment::InUse).await {
        Ok(()) => true,
        Err(NotGrown::Claim(text)) => {
            tracing::debug!(volume = name, "{text}");
            false
        }
        Err(NotGrown::Failed(text)) => {
            tracing::warn!("NodeExpandVolume.NodeExpandVolume failed for volume {name:?} : {text}");
            false
        }
    }
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
