//! Pulls within the limits on parallelism and rate, with one login after the other; concurrent requests for one image with the same
//! logins share one pull. Knows no pods.
//!
//! A pull is a [`Shared`] future that all waiters drive together: it continues when the first requester is cancelled, and is
//! dropped with the last one, which cancels the call to the runtime.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use hostlet_base::TokenBucket;
use hostlet_runtime::cri::wire::{AuthConfig, PodSandboxConfig};
use hostlet_runtime::cri::{ImageInfo, ImageService};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::credentials::Login;

/// Pull limits: fields of KubeletConfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullLimits {
    /// `serializeImagePulls`: one pull at a time.
    pub serialize: bool,
    /// `maxParallelImagePulls`, unless serialized; `None` means no limit.
    pub max_parallel: Option<NonZeroUsize>,
    /// `registryPullQPS`: pulls per second; 0 means no limit.
    pub qps: u32,
    /// `registryBurst`: size of a burst above the rate.
    pub burst: u32,
}

/// A finished pull.
#[derive(Clone, Debug)]
pub(super) struct Pulled {
    pub(super) image: ImageInfo,
    /// The index of the login that was accepted; `None` for an anonymous pull.
    pub(super) login: Option<usize>,
    /// How long it took, without the wait in the queue.
    pub(super) took: Duration,
}

/// A pull in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullUnderWay {
    /// The image, with its tag.
    pub image: String,
    /// When it was first requested.
    pub requested_at: Instant,
    /// When it left the queue; `None` while it is queued.
    pub started: Option<Instant>,
}

/// Why a pull failed. `Display` is upstream's text.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum PullError {
    #[error("pull QPS exceeded")]
    Throttled,
    #[error("{0}")]
    Runtime(String),
    /// The pull succeeded, but the runtime does not return the image.
    #[error("{0}")]
    Inspect(String),
}

type SharedPull = Shared<BoxFuture<'static, Result<Pulled, PullError>>>;
type WeakPull = WeakShared<BoxFuture<'static, Result<Pulled, PullError>>>;

/// Pulls images within the limits.
pub(super) struct Puller {
    service: Arc<dyn ImageService>,
    /// Fair: first come, first served.
    slots: Option<Arc<Semaphore>>,
    throttle: Option<Arc<Mutex<TokenBucket>>>,
    in_flight: Arc<InFlight>,
}

impl Puller {
    pub(super) fn new(service: Arc<dyn ImageService>, limits: PullLimits, now: Instant) -> Self {
        let at_once = if limits.serialize { Some(1) } else { limits.max_parallel.map(NonZeroUsize::get) };
        Self {
            service,
            slots: at_once.map(|n| Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)))),
            throttle: (limits.qps > 0).then(|| {
                Arc::new(Mutex::new(TokenBucket::new(limits.burst, Duration::from_secs(1) / limits.qps, now)))
            }),
            in_flight: Arc::default(),
        }
    }

    /// Pulls `image` or joins its pull in progress. Cancel-safe: dropping the future only stops waiting.
    pub(super) async fn pull(
        &self,
        image: &str,
        logins: Vec<Login>,
        sandbox: PodSandboxConfig,
    ) -> Result<Pulled, PullError> {
        let what = Requested { image: image.to_owned(), logins: logins.into() };
        let pull = self.in_flight.join_or_start(what, |ticket| self.start(ticket, sandbox));
        pull.await
    }

    /// The pulls in progress, oldest first.
    pub(super) fn under_way(&self) -> Vec<PullUnderWay> {
        let pulls = self.in_flight.pulls.lock();
        let entries = pulls.by_request.iter().map(|(requested, entry)| PullUnderWay {
            image: requested.image.clone(),
            requested_at: entry.requested_at,
            started: entry.started,
        });
        let mut entries: Vec<PullUnderWay> = entries.collect();
        entries.sort_by_key(|pull| pull.requested_at);
        entries
    }

    /// The pull itself. `ticket` lives as long as the future does.
    fn start(
        &self,
        ticket: Ticket,
        sandbox: PodSandboxConfig,
    ) -> BoxFuture<'static, Result<Pulled, PullError>> {
        let service = self.service.clone();
        let slots = self.slots.clone();
        let throttle = self.throttle.clone();
        async move {
            let _slot = match &slots {
                // The semaphore is never closed, so this cannot fail; pulling without a permit would still be correct.
                Some(slots) => slots.acquire().await.ok(),
                None => None,
            };
            let started = Instant::now();
            if let Some(throttle) = throttle
                && !throttle.lock().try_take(started)
            {
                return Err(PullError::Throttled);
            }
            ticket.started(started);
            let Requested { image, logins } = &ticket.what;
            let (reference, login) = pull_with(&*service, image, logins, &sandbox).await?;
            let image = inspect(&*service, image, &reference, &sandbox.annotations).await?;
            drop(ticket);
            Ok(Pulled { image, login, took: started.elapsed() })
        }
        .boxed()
    }
}

/// Pulls with one login after the other until one succeeds, or anonymously if there are none. Returns the runtime's reference and the
/// index of the login. The error has the texts of all, as upstream joins them.
async fn pull_with(
    service: &dyn ImageService,
    image: &str,
    logins: &[Login],
    sandbox: &PodSandboxConfig,
) -> Result<(String, Option<usize>), PullError> {
    if logins.is_empty() {
        let pulled = service.pull_image(image, None, Some(sandbox.clone())).await;
        return pulled
            .map(|reference| (reference, None))
            .map_err(|error| PullError::Runtime(error.to_string()));
    }
    let mut errors: Vec<String> = Vec::new();
    for (index, Login { username, password, .. }) in logins.iter().enumerate() {
        let auth =
            AuthConfig { username: username.clone(), password: password.clone(), ..AuthConfig::default() };
        match service.pull_image(image, Some(auth), Some(sandbox.clone())).await {
            Ok(reference) => return Ok((reference, Some(index))),
            Err(error) => {
                let text = error.to_string();
                if !errors.contains(&text) {
                    errors.push(text);
                }
            }
        }
    }
    let joined = errors.join(", ");
    Err(PullError::Runtime(if errors.len() == 1 { joined } else { format!("[{joined}]") }))
}

/// Inspects the pulled image: by the requested name, else by the reference that the runtime returned.
async fn inspect(
    service: &dyn ImageService,
    image: &str,
    reference: &str,
    annotations: &HashMap<String, String>,
) -> Result<ImageInfo, PullError> {
    for name in [image, reference] {
        match service.image_status(name, annotations).await {
            Ok(Some(image)) => return Ok(image),
            Ok(None) => {}
            Err(e) => return Err(PullError::Inspect(e.to_string())),
        }
    }
    Err(PullError::Inspect(format!("the container runtime pulled it as {reference:?}, but does not have it")))
}

/// What is pulled. With other logins it is another pull: none profits from another's access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requested {
    image: String,
    logins: Arc<[Login]>,
}

/// The pulls in progress.
#[derive(Default)]
struct InFlight {
    pulls: Mutex<Pulls>,
}

#[derive(Default)]
struct Pulls {
    by_request: HashMap<Requested, Entry>,
    last_ticket: u64,
}

struct Entry {
    ticket: u64,
    pull: WeakPull,
    requested_at: Instant,
    started: Option<Instant>,
}

impl InFlight {
    fn join_or_start(
        self: &Arc<Self>,
        what: Requested,
        start: impl FnOnce(Ticket) -> BoxFuture<'static, Result<Pulled, PullError>>,
    ) -> SharedPull {
        let mut pulls = self.pulls.lock();
        if let Some(pull) = pulls.by_request.get(&what).and_then(|entry| entry.pull.upgrade()) {
            return pull;
        }
        pulls.last_ticket += 1;
        let number = pulls.last_ticket;
        let pull = start(Ticket { in_flight: self.clone(), what: what.clone(), number }).shared();
        if let Some(weak) = pull.downgrade() {
            let entry = Entry { ticket: number, pull: weak, requested_at: Instant::now(), started: None };
            pulls.by_request.insert(what, entry);
        }
        pull
    }
}

/// Held by a pull: removes it from the list when it finishes or is dropped, so that a later request starts a new one.
struct Ticket {
    in_flight: Arc<InFlight>,
    what: Requested,
    number: u64,
}

impl Ticket {
    /// Marks the pull as started.
    fn started(&self, at: Instant) {
        let mut pulls = self.in_flight.pulls.lock();
        if let Some(entry) = pulls.by_request.get_mut(&self.what).filter(|entry| entry.ticket == self.number)
        {
            entry.started = Some(at);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut pulls = self.in_flight.pulls.lock();
        // A new pull of the same image may have replaced a dropped one.
        if pulls.by_request.get(&self.what).is_some_and(|entry| entry.ticket == self.number) {
            pulls.by_request.remove(&self.what);
        }
    }
}
