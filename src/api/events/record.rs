//! The recorder that everybody tells, and the task that writes: trouble at once, the ordinary course of things when no
//! pod starts or stops. The API server's work on an event is taken from those on a small host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::correlate::{Correlator, Count, EventRecord};
use crate::api::{ApiErrorKind, Objects, Wire, error_kind};
use crate::types::{EventKind, QuietPeriod, WallClock, error_chain};

/// Happenings of a kind that may wait to be written. Each container that starts has three: a whole node's, while all its pods
/// start and none is written before a quiet period.
const QUEUE: usize = 4000;

/// What a kubelet calls itself in events.
const COMPONENT: &str = "kubelet";

/// How long an event that tells of no trouble may wait for a quiet period, however busy the node is.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tries of one event, and the pause between two.
const TRIES: usize = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// How long one try may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// A happening that was told.
#[derive(Debug)]
struct RecordedEvent {
    at: Timestamp,
    since: Instant,
    happening: EventRecord,
}

/// Where events are told. Cheap to clone; never blocks.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    trouble: mpsc::Sender<RecordedEvent>,
    ordinary: mpsc::Sender<RecordedEvent>,
    dropped: Arc<AtomicU64>,
    clock: WallClock,
}

impl EventRecorder {
    /// Tells of a happening. When the server has not taken earlier ones for long, it is dropped: nobody may wait for
    /// events.
    pub fn tell(&self, happening: EventRecord) {
        let queue = match happening.kind {
            EventKind::Warning => &self.trouble,
            EventKind::Normal => &self.ordinary,
        };
        if queue.try_send(RecordedEvent { at: self.clock.now(), since: Instant::now(), happening }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes what is told, to be run by the app.
pub struct EventSink {
    client: Client,
    node_name: String,
    trouble: mpsc::Receiver<RecordedEvent>,
    ordinary: mpsc::Receiver<RecordedEvent>,
    /// The first of the ordinary ones, which waits for a quiet period.
    waiting: Option<RecordedEvent>,
    dropped: Arc<AtomicU64>,
    correlator: Correlator,
    /// Distinguishes the names of events of one nanosecond.
    last_name: i128,
}

/// A recorder of the kubelet on `node_name` and what writes for it with `client`, which is to limit itself to
/// `eventRecordQPS` and `eventBurst`.
pub fn recorder(client: Client, node_name: String, clock: WallClock) -> (EventRecorder, EventSink) {
    let (tell_trouble, trouble) = mpsc::channel(QUEUE);
    let (tell_ordinary, ordinary) = mpsc::channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let recorder =
        EventRecorder { trouble: tell_trouble, ordinary: tell_ordinary, dropped: dropped.clone(), clock };
    let correlator = Correlator::default();
    let sink =
        EventSink { client, node_name, trouble, ordinary, waiting: None, dropped, correlator, last_name: 0 };
    (recorder, sink)
}

impl EventSink {
    /// Writes until cancelled; what was not written by then is lost.
    pub async fn run(mut self, quiet_period: QuietPeriod, cancel: CancellationToken) {
        loop {
            let since = self.waiting.as_ref().map(|told| told.since);
            let latest = since.unwrap_or_else(Instant::now) + PATIENCE;
            let told = tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a channel gives an item only when `recv` returns it.
                Some(told) = self.trouble.recv() => Some(told),
                // Cancel-safe: as above.
                Some(told) = self.ordinary.recv(), if since.is_none() => {
                    self.waiting = Some(told);
                    None
                }
                // Cancel-safe: waiting for a quiet period takes nothing.
                () = quiet_period.begins(latest), if since.is_some() => self.waiting.take(),
            };
            let Some(RecordedEvent { at, happening, .. }) = told else { continue };
            let Some(count) = self.correlator.observe(&happening, at, Instant::now()) else { continue };
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: never polled again after it was dropped; the event is lost with the daemon.
                () = self.write(&happening, at, count) => {}
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(dropped, "events were dropped: the API server does not take them fast enough");
            }
        }
    }

    async fn write(&mut self, happening: &EventRecord, at: Timestamp, mut count: Count) {
        for _ in 0..TRIES {
            let name = count.name.clone();
            let tried = tokio::time::timeout(DEADLINE, self.try_write(happening, at, &count)).await;
            let error = match tried {
                Ok(Ok(name)) => return self.correlator.told(&count.key, name),
                Ok(Err(error)) => error,
                Err(_elapsed) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match error_kind(&error) {
                // The object that counted it has expired: an hour is all an event lives.
                ApiErrorKind::NotFound if name.is_some() => {
                    self.correlator.lost(&count.key);
                    count.name = None;
                }
                ApiErrorKind::NotFound
                | ApiErrorKind::AlreadyExists
                | ApiErrorKind::Conflict
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid => {
                    let (reason, error) = (&happening.reason, error_chain(&error));
                    tracing::debug!(reason, error, "the API server refuses an event; it is dropped");
                    return;
                }
                ApiErrorKind::TooMany(pause) => tokio::time::sleep(pause.unwrap_or(PAUSE)).await,
                ApiErrorKind::Unavailable => tokio::time::sleep(PAUSE).await,
            }
        }
        tracing::warn!(
            reason = happening.reason,
            "an event could not be written in many tries; it is dropped"
        );
    }

    /// Writes it once. Answers the name of the object that says it now.
    async fn try_write(
        &mut self,
        happening: &EventRecord,
        at: Timestamp,
        count: &Count,
    ) -> Result<String, kube::Error> {
        // What is in no namespace has its events in this one.
        let namespace = happening.object.namespace.as_deref().unwrap_or("default");
        let events = Objects::<Event>::namespaced(self.client.clone(), namespace);
        if let Some(name) = &count.name {
            let change = json!({"count": count.count, "lastTimestamp": Time(at), "message": count.message});
            events.patch(name, &PatchParams::default(), &Patch::Strategic(change)).await?;
            return Ok(name.clone());
        }
        let event = self.event(happening, at, count, namespace);
        let name = event.metadata.name.clone().unwrap_or_default();
        events.create(&PostParams::default(), &Wire(event)).await?;
        Ok(name)
    }

    fn event(&mut self, happening: &EventRecord, at: Timestamp, count: &Count, namespace: &str) -> Event {
        self.last_name = at.as_nanosecond().max(self.last_name + 1);
        let object = happening.object.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object}.{:x}", self.last_name)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: happening.object.clone(),
            type_: Some(happening.kind.as_str().to_owned()),
            reason: Some(happening.reason.clone()),
            message: Some(count.message.clone()),
            count: Some(count.count),
            first_timestamp: Some(Time(count.first)),
            last_timestamp: Some(Time(at)),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: Some(self.node_name.clone()),
            }),
            reporting_component: Some(COMPONENT.to_owned()),
            reporting_instance: Some(self.node_name.clone()),
            ..Event::default()
        }
    }
}
