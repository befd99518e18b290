//! The images that one pod is waiting for, or will be: those of its containers, and of their image volumes. A pull begins with the first
//! step that plans the container's start, now or later, and goes on beside whatever the worker does: while the sandbox is created, other containers start, or init containers
//! run. Does not decide which images are needed.
//!
//! What was pulled counts for one start of the container, as `imagePullPolicy: Always` requires. It is kept as long as every step
//! plans that start.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::{BoxFuture, FusedFuture, Shared};
use hostlet_base::{PodEvent, reasons};
use hostlet_image::{ImageError, ImageRequest, Images};
use hostlet_runtime::cri::ImageInfo;
use hostlet_runtime::cri::wire::PodSandboxConfig;
use hostlet_telemetry::in_present_span;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::events::EventSender;
use super::image_needs::ImageNeed;
use super::pull_secrets::PodPullSecrets;

/// The end of a pull.
#[derive(Clone, Debug)]
pub(super) struct PullEnd {
    pub(super) image: Result<ImageInfo, ImageError>,
    /// What was found without a pull, to be reported when it is the container's turn.
    pub(super) found: Option<PodEvent>,
}

/// A pull that its container can wait for.
pub(super) type AwaitedPull = Shared<BoxFuture<'static, PullEnd>>;

struct Pull {
    need: ImageNeed,
    /// Polled by [`PodPulls::drive`].
    driven: AwaitedPull,
    /// To wait for. Never polled itself, so that it keeps the result.
    awaited: AwaitedPull,
    /// Ends when it has its place among the pulls of all pods. The next one begins then.
    in_queue: Option<oneshot::Receiver<()>>,
}

/// The pulls of one pod. Clones share them.
#[derive(Clone, Default)]
pub(super) struct PodPulls {
    pulls: Arc<Mutex<Vec<Pull>>>,
}

impl PodPulls {
    /// Keeps the pulls for these needs and cancels the others. A failed one is forgotten. Returns the needs without a pull.
    pub(super) fn keep(&self, needs: Vec<ImageNeed>) -> Vec<ImageNeed> {
        self.retain(|pull| {
            let has_failed = pull.awaited.peek().is_some_and(|end| end.image.is_err());
            !has_failed && needs.contains(&pull.need)
        });
        let pulls = self.pulls.lock();
        needs.into_iter().filter(|need| pulls.iter().all(|pull| pull.need != *need)).collect()
    }

    /// Cancels all pulls, unless other pods wait for them.
    pub(super) fn cancel(&self) {
        self.retain(|_| false);
    }

    /// The start that a pull was for has its image.
    pub(super) fn used(&self, need: &ImageNeed) {
        self.retain(|pull| pull.need != *need);
    }

    fn retain(&self, is_kept: impl Fn(&Pull) -> bool) {
        let gone: Vec<Pull> = self.pulls.lock().extract_if(.., |pull| !is_kept(pull)).collect();
        // Dropped without the lock.
        drop(gone);
    }

    /// Lets the pulls go on, in the order in which they began. Runs beside the worker in the worker's task, and is polled after it:
    /// a pull that the worker begins is polled at once.
    pub(super) async fn drive(&self) -> Infallible {
        let all = poll_fn(|context| {
            for Pull { driven, .. } in &mut *self.pulls.lock() {
                if !driven.is_terminated() {
                    let _ = driven.poll_unpin(context);
                }
            }
            Poll::<Infallible>::Pending
        });
        all.await
    }
}

/// Pulls images for one pod.
pub(super) struct PodPuller<'a> {
    pub(super) pulls: &'a PodPulls,
    pub(super) images: &'a Images,
    pub(super) events: &'a EventSender,
    pub(super) secrets: &'a PodPullSecrets,
    /// Of the sandbox that the containers will run in.
    pub(super) sandbox: &'a PodSandboxConfig,
}

impl PodPuller<'_> {
    /// The pull for this need, begun unless it has begun before.
    pub(super) fn pull(&self, need: &ImageNeed) -> AwaitedPull {
        let mut pulls = self.pulls.pulls.lock();
        if let Some(pull) = pulls.iter().find(|pull| pull.need == *need) {
            return pull.awaited.clone();
        }
        let before = pulls.last_mut().and_then(|last| last.in_queue.take());
        let (queued, in_queue) = oneshot::channel();
        let awaited = self.begin(need.clone(), before, queued).shared();
        let driven = awaited.clone();
        pulls.push(Pull { need: need.clone(), driven, awaited: awaited.clone(), in_queue: Some(in_queue) });
        awaited
    }

    /// Pulls once the pull `before` has its place in the queue, and drops `queued` when this one has: with serialized pulls,
    /// images arrive in the order in which their containers start.
    fn begin(
        &self,
        need: ImageNeed,
        before: Option<oneshot::Receiver<()>>,
        queued: oneshot::Sender<()>,
    ) -> BoxFuture<'static, PullEnd> {
        let (images, events) = (self.images.clone(), self.events.clone());
        let (secrets, sandbox) = (self.secrets.clone(), self.sandbox.clone());
        // A part of the work that needs it, which goes on meanwhile.
        in_present_span(async move {
            if let Some(before) = before {
                // Nothing is sent: it ends when the sender is dropped.
                let _ = before.await;
            }
            let (mut queued, mut shown, mut found) = (Some(queued), None, None);
            let mut report = |event: PodEvent| {
                drop(queued.take());
                match &*event.reason {
                    reasons::PULLING => shown = Some(events.pulling(&need.pull)),
                    reasons::PULLED | reasons::INSPECT_FAILED | reasons::ERR_IMAGE_NEVER_PULL
                        if shown.is_none() =>
                    {
                        found = Some(event);
                        return;
                    }
                    _ => {}
                }
                events.event(need.container(), event);
            };
            let request = ImageRequest {
                pod: &events.pod,
                image: &need.pull.image,
                policy: need.policy,
                sandbox,
                secrets: &secrets,
            };
            let ensured = images.ensure(request, &mut report).await;
            PullEnd { image: ensured.map(|ensured| ensured.image), found }
        })
        .boxed()
    }
}
