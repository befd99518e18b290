//! The relist loop: lists everything each second, and a single pod at once on a hint. Pods are inspected separately, so
//! that a hung call delays only its pod.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use hostlet_base::PodRef;
use hostlet_runtime::cri::{CriError, EventStream, FIRST_ANSWER_RETRY, RuntimeHint, RuntimeService};
use hostlet_telemetry::{Heartbeat, Metrics};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::at_work::{AtWork, Working};
use super::diff::Listing;
use super::hints::Hints;
use super::inspect::Everything;
use super::lists::{Listed, Lists};
use super::metrics::PlegMetrics;
use super::records::{Records, Todo};
use super::{Cache, ChangeQueue, PodStatus, inspect, running};

/// Pause between two relists of everything.
pub(super) const RELIST_PERIOD: Duration = Duration::from_secs(1);

/// Without a successful relist for this long, the runtime counts as unhealthy.
pub const RELIST_THRESHOLD: Duration = Duration::from_secs(3 * 60);

/// First pause before a broken event stream is reopened; doubles while it keeps breaking.
const EVENTS_RETRY: Duration = Duration::from_secs(1);

/// Longest pause before the event stream is reopened.
const EVENTS_RETRY_MAX: Duration = Duration::from_secs(60);

/// Pause before events are requested again from a runtime that has none: it may have been upgraded meanwhile.
const EVENTS_ABSENT_RETRY: Duration = Duration::from_secs(10 * 60);

/// The health of the relist.
#[derive(Clone, Debug)]
pub struct Health {
    /// When the last successful relist of everything began; initially when the daemon started.
    pub last_relist: Instant,
    /// Why the latest relist failed; `None` after a success.
    pub error: Option<CriError>,
}

impl Health {
    /// Whether the runtime answered a list within [`RELIST_THRESHOLD`].
    pub fn is_healthy(&self, now: Instant) -> bool {
        now.duration_since(self.last_relist) < RELIST_THRESHOLD
    }
}

/// Requests relists and inspections of the PLEG, and reads its cache. Clones share one PLEG.
#[derive(Clone)]
pub struct PlegHandle {
    hints: Hints,
    working: Working,
    cache: Cache,
    changes: ChangeQueue,
    health: watch::Receiver<Health>,
    metrics: PlegMetrics,
}

impl PlegHandle {
    /// Requests a relist of this pod now, after one of our own calls on it returned.
    pub fn relist(&self, pod: &PodRef) {
        self.hints.push(pod.clone());
    }

    /// Announces work that changes this pod in the runtime. The runtime's events of the pod are ignored until the guard is
    /// dropped; then the pod is relisted.
    pub fn at_work(&self, pod: &PodRef) -> AtWork {
        self.working.begin(pod, &self.hints)
    }

    /// The observed state of every pod.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The queue of changed pods. It has one reader.
    pub fn changes(&self) -> &ChangeQueue {
        &self.changes
    }

    /// Adds the metrics of the relist and of what runs.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
        running::register(metrics, &self.cache);
    }

    /// The health of the relist.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }
}

/// A completed inspection.
struct Done {
    pod: PodRef,
    as_of: Instant,
    result: Result<(Listing, PodStatus), Uninspected>,
}

/// An inspection that failed.
struct Uninspected {
    error: CriError,
    /// The listing it was to inspect; `None` if that failed.
    listing: Option<Listing>,
}

/// The relist loop, to be run by the app.
pub struct Pleg {
    runtime: Arc<dyn RuntimeService>,
    hints: Hints,
    working: Working,
    cache: Cache,
    changes: ChangeQueue,
    health: watch::Sender<Health>,
    lists: Lists,
    records: Records,
    inspections: FuturesUnordered<BoxFuture<'static, Done>>,
    chance: StdRng,
    metrics: PlegMetrics,
    heartbeat: Heartbeat,
}

impl Pleg {
    /// A PLEG over `runtime`, and its handle. `chance` is the source of jitter, which keeps nodes from acting in step.
    pub fn new(runtime: Arc<dyn RuntimeService>, chance: StdRng) -> (Self, PlegHandle) {
        let (health, health_view) = watch::channel(Health { last_relist: Instant::now(), error: None });
        let handle = PlegHandle {
            hints: Hints::default(),
            working: Working::default(),
            cache: Cache::default(),
            changes: ChangeQueue::default(),
            health: health_view,
            metrics: PlegMetrics::default(),
        };
        let pleg = Self {
            lists: Lists::new(runtime.clone()),
            runtime,
            hints: handle.hints.clone(),
            working: handle.working.clone(),
            cache: handle.cache.clone(),
            changes: handle.changes.clone(),
            health,
            records: Records::default(),
            inspections: FuturesUnordered::new(),
            chance,
            metrics: handle.metrics.clone(),
            heartbeat: Heartbeat::default(),
        };
        (pleg, handle)
    }

    /// Answers as this heartbeat.
    pub fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Relists until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut listing: OptionFuture<BoxFuture<'static, Listed>> = None.into();
        let mut next_relist = Instant::now();
        let mut is_listing = false;
        let mut events = Events::new(self.runtime.clone(), self.chance.clone());
        loop {
            // Biased, so that simultaneous events are processed in the same order in every run. The runtime's events, whose
            // rate is not ours to bound, are last.
            tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe as documented there.
                () = self.heartbeat.asked() => {}
                // Cancel-safe: a sleep.
                () = tokio::time::sleep_until(next_relist), if !is_listing => {
                    listing = Some(self.lists.begin(self.records.pods().cloned().collect())).into();
                    is_listing = true;
                }
                // Cancel-safe: the future lives outside the loop and is polled on by reference.
                Some(listed) = &mut listing, if is_listing => {
                    is_listing = false;
                    self.lists.ended(&listed);
                    self.take_listing(listed.as_of, listed.result);
                    let period = if self.cache.is_filled() { RELIST_PERIOD } else { FIRST_ANSWER_RETRY };
                    next_relist = Instant::now() + period;
                }
                // Cancel-safe: the inspections live in `self`.
                Some(done) = self.inspections.next() => self.take_inspection(done),
                // Cancel-safe: `next` takes the hints only when it returns them.
                pods = self.hints.next() => {
                    for pod in pods {
                        self.hint(&pod);
                    }
                }
                // Cancel-safe: the stream lives outside the loop, and `next` takes an item only when it returns it.
                hint = events.next() => {
                    let pod = match &hint {
                        RuntimeHint::Object(id) => self.records.owner(id),
                        RuntimeHint::Pod(uid) => self.records.pod(uid),
                    };
                    // The name of a pod never listed before is unknown; the next relist finds it.
                    if let Some(pod) = pod.filter(|pod| !self.working.has(&pod.uid)).cloned() {
                        self.hint(&pod);
                    }
                }
            }
        }
    }

    fn take_listing(&mut self, as_of: Instant, result: Result<Everything, CriError>) {
        let found = match result {
            Ok(found) => found,
            Err(error) => {
                // Logged once per outage, not once per second.
                if self.health.borrow().error.is_none() {
                    tracing::error!(%error, "cannot list pods from the container runtime; retrying every second");
                }
                self.health.send_modify(|health| health.error = Some(error));
                return;
            }
        };
        if self.health.borrow().error.is_some() {
            tracing::info!("the container runtime responds again");
        }
        let before = self.health.send_replace(Health { last_relist: as_of, error: None });
        self.metrics.relisted(as_of, as_of.elapsed(), before.last_relist);
        for todo in self.records.listed_all(found, as_of) {
            match todo {
                Todo::Inspect(pod, listing) => self.inspect(pod, as_of, Some(listing)),
                Todo::Forget(uid, events) => {
                    self.cache.remove(&uid, as_of);
                    self.changes.push(&uid, events);
                }
            }
        }
        self.cache.commit(as_of, self.records.busy());
    }

    fn hint(&mut self, pod: &PodRef) {
        if self.records.hinted(pod) {
            self.inspect(pod.clone(), Instant::now(), None);
        }
    }

    /// Starts the inspection of a pod; lists it first if no listing is given.
    fn inspect(&self, pod: PodRef, as_of: Instant, listing: Option<Listing>) {
        let runtime = self.runtime.clone();
        self.inspections.push(
            async move {
                let result = async {
                    let mut listing = match listing {
                        Some(listing) => listing,
                        None => inspect::list_pod(&*runtime, &pod)
                            .await
                            .map_err(|error| Uninspected { error, listing: None })?,
                    };
                    match inspect::inspect(&*runtime, &pod, &listing).await {
                        Ok(status) => {
                            inspect::keep_inspected(&mut listing, &status);
                            Ok((listing, status))
                        }
                        Err(error) => Err(Uninspected { error, listing: Some(listing) }),
                    }
                }
                .await;
                Done { pod, as_of, result }
            }
            .boxed(),
        );
    }

    fn take_inspection(&mut self, done: Done) {
        let Done { pod, as_of, result } = done;
        let again = match result {
            Ok((listing, mut status)) => {
                let outcome = self.records.inspected(&pod, &listing, as_of);
                if listing.is_empty() {
                    self.cache.remove(&pod.uid, as_of);
                } else {
                    let old = self.cache.get(&pod).ok();
                    inspect::keep_ips(&mut status, old.as_deref());
                    self.cache.set(&pod.uid, Ok(Arc::new(status)), as_of);
                }
                self.changes.push(&pod.uid, outcome.events);
                outcome.again
            }
            Err(Uninspected { error, listing }) => {
                if self.cache.get(&pod).is_ok() {
                    tracing::warn!(pod = %pod, uid = %pod.uid, %error, "cannot inspect the pod; retrying every second");
                }
                let listed = listing.map(|listing| inspect::as_listed(&pod, &listing));
                self.cache.set_failed(&pod.uid, error, listed, as_of);
                self.records.failed(&pod)
            }
        };
        if again {
            self.hint(&pod);
        }
    }
}

/// The runtime's event stream, reopened whenever it ends.
struct Events {
    runtime: Arc<dyn RuntimeService>,
    stream: Option<EventStream>,
    reopen_at: Instant,
    pause: Duration,
    chance: StdRng,
}

impl Events {
    fn new(runtime: Arc<dyn RuntimeService>, chance: StdRng) -> Self {
        Self { runtime, stream: None, reopen_at: Instant::now(), pause: EVENTS_RETRY, chance }
    }

    /// The next hint. Cancel-safe: all state is in `self`. The relist finds what is missed while the stream is down.
    async fn next(&mut self) -> RuntimeHint {
        loop {
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep_until(self.reopen_at).await;
                self.stream = Some(self.runtime.events());
                continue;
            };
            let pause = match stream.next().await {
                Some(Ok(hint)) => {
                    self.pause = EVENTS_RETRY;
                    return hint;
                }
                Some(Err(CriError::Unimplemented { .. })) => {
                    tracing::info!(
                        "the container runtime has no events; changes are found by the relist each second"
                    );
                    EVENTS_ABSENT_RETRY
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "the container runtime's event stream broke");
                    self.longer_pause()
                }
                None => self.longer_pause(),
            };
            self.stream = None;
            self.reopen_at = Instant::now() + pause;
        }
    }

    fn longer_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(EVENTS_RETRY_MAX);
        // Nodes whose runtimes restarted together should not reconnect together.
        pause.mul_f64(0.5 + self.chance.random::<f64>() / 2.0)
    }
}
