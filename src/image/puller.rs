//! Pulls: how many at once, how many per second, and one pull for all who want the same image. Does not know of pods.
//!
//! A pull is a future that all who wait for it drive together ([`Shared`]): it goes on when the one who asked first is
//! cancelled, and is dropped with the last one, which cancels the call to the runtime.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::throttle::TokenBucket;
use crate::cri::wire::PodSandboxConfig;
use crate::cri::{CriError, ImageInfo, ImageService};

/// How much is pulled at once; the fields of KubeletConfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullLimits {
    /// `serializeImagePulls`: one pull at a time.
    pub serialize: bool,
    /// `maxParallelImagePulls`, when not serialized; no bound if none.
    pub max_parallel: Option<NonZeroUsize>,
    /// `registryPullQPS`: pulls per second; 0 is no bound.
    pub qps: u32,
    /// `registryBurst`: pulls allowed at once before the rate counts.
    pub burst: u32,
}

/// A finished pull.
#[derive(Clone, Debug)]
pub(super) struct Pulled {
    pub(super) image: ImageInfo,
    /// How long it took, without the wait for its turn.
    pub(super) took: Duration,
}

/// A pull under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullUnderWay {
    /// The image, with its tag.
    pub image: String,
    /// When it was asked for.
    pub asked: Instant,
    /// When its turn came; none while it waits for that.
    pub started: Option<Instant>,
}

/// Why a pull failed. `Display` is upstream's text.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum PullError {
    #[error("pull QPS exceeded")]
    Throttled,
    #[error("{0}")]
    Runtime(CriError),
    /// The pull went well, but the runtime cannot show the image.
    #[error("{0}")]
    Inspect(String),
}

type SharedPull = Shared<BoxFuture<'static, Result<Pulled, PullError>>>;
type WeakPull = WeakShared<BoxFuture<'static, Result<Pulled, PullError>>>;

/// Pulls images within the limits.
pub(super) struct Puller {
    service: Arc<dyn ImageService>,
    /// Fair: turns are given in the order of arrival.
    turns: Option<Arc<Semaphore>>,
    throttle: Option<Arc<Mutex<TokenBucket>>>,
    in_flight: Arc<InFlight>,
}

impl Puller {
    pub(super) fn new(service: Arc<dyn ImageService>, limits: PullLimits, now: Instant) -> Self {
        let at_once = if limits.serialize { Some(1) } else { limits.max_parallel.map(NonZeroUsize::get) };
        Self {
            service,
            turns: at_once.map(|n| Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)))),
            throttle: (limits.qps > 0)
                .then(|| Arc::new(Mutex::new(TokenBucket::new(limits.qps, limits.burst, now)))),
            in_flight: Arc::default(),
        }
    }

    /// Pulls `image`, or joins the pull of it that is under way. Cancel-safe: dropping this is not waiting any longer.
    pub(super) async fn pull(&self, image: &str, sandbox: PodSandboxConfig) -> Result<Pulled, PullError> {
        let pull = self.in_flight.join_or_start(image, |ticket| self.start(ticket, image, sandbox));
        pull.await
    }

    /// The pulls under way, the oldest first.
    pub(super) fn under_way(&self) -> Vec<PullUnderWay> {
        let pulls = self.in_flight.pulls.lock();
        let entries = pulls.by_image.iter().map(|(image, entry)| PullUnderWay {
            image: image.clone(),
            asked: entry.asked,
            started: entry.started,
        });
        let mut entries: Vec<PullUnderWay> = entries.collect();
        entries.sort_by_key(|pull| pull.asked);
        entries
    }

    /// The pull itself. `ticket` lives as long as the future does.
    fn start(
        &self,
        ticket: Ticket,
        image: &str,
        sandbox: PodSandboxConfig,
    ) -> BoxFuture<'static, Result<Pulled, PullError>> {
        let service = self.service.clone();
        let turns = self.turns.clone();
        let throttle = self.throttle.clone();
        let image = image.to_owned();
        async move {
            let _turn = match &turns {
                // Never closed, so an error cannot be; going on without a turn would be right even then.
                Some(turns) => turns.acquire().await.ok(),
                None => None,
            };
            let started = Instant::now();
            if let Some(throttle) = throttle
                && !throttle.lock().try_take(started)
            {
                return Err(PullError::Throttled);
            }
            ticket.started(started);
            let reference =
                service.pull_image(&image, None, Some(sandbox)).await.map_err(PullError::Runtime)?;
            let image = inspect(&*service, &image, &reference).await?;
            drop(ticket);
            Ok(Pulled { image, took: started.elapsed() })
        }
        .boxed()
    }
}

/// What was pulled: by the name asked for, else by what the runtime called it.
async fn inspect(service: &dyn ImageService, image: &str, reference: &str) -> Result<ImageInfo, PullError> {
    for name in [image, reference] {
        match service.image_status(name).await {
            Ok(Some(image)) => return Ok(image),
            Ok(None) => {}
            Err(e) => return Err(PullError::Inspect(e.to_string())),
        }
    }
    Err(PullError::Inspect(format!("the container runtime pulled it as {reference:?}, but does not have it")))
}

/// The pulls under way, by image.
#[derive(Default)]
struct InFlight {
    pulls: Mutex<Pulls>,
}

#[derive(Default)]
struct Pulls {
    by_image: HashMap<String, Entry>,
    last_ticket: u64,
}

struct Entry {
    ticket: u64,
    pull: WeakPull,
    asked: Instant,
    started: Option<Instant>,
}

impl InFlight {
    fn join_or_start(
        self: &Arc<Self>,
        image: &str,
        start: impl FnOnce(Ticket) -> BoxFuture<'static, Result<Pulled, PullError>>,
    ) -> SharedPull {
        let mut pulls = self.pulls.lock();
        if let Some(pull) = pulls.by_image.get(image).and_then(|entry| entry.pull.upgrade()) {
            return pull;
        }
        pulls.last_ticket += 1;
        let number = pulls.last_ticket;
        let pull = start(Ticket { in_flight: self.clone(), image: image.to_owned(), number }).shared();
        if let Some(weak) = pull.downgrade() {
            let entry = Entry { ticket: number, pull: weak, asked: Instant::now(), started: None };
            pulls.by_image.insert(image.to_owned(), entry);
        }
        pull
    }
}

/// Held by a pull: takes it off the list when it ends or is dropped, so that a later request starts a new one.
struct Ticket {
    in_flight: Arc<InFlight>,
    image: String,
    number: u64,
}

impl Ticket {
    /// The pull's turn has come.
    fn started(&self, at: Instant) {
        let mut pulls = self.in_flight.pulls.lock();
        if let Some(entry) = pulls.by_image.get_mut(&self.image).filter(|entry| entry.ticket == self.number) {
            entry.started = Some(at);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut pulls = self.in_flight.pulls.lock();
        // A pull that was dropped may have a successor of the same name by now.
        if pulls.by_image.get(&self.image).is_some_and(|entry| entry.ticket == self.number) {
            pulls.by_image.remove(&self.image);
        }
    }
}
