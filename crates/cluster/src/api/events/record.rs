//! The event recorder, and the task that writes events: warnings at once, normal events when no pod starts or stops, because on
//! a small host the API server's work on events competes with pods.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hostlet_base::{EventKind, QuietPeriod, WallClock, error_chain};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::correlate::{Correlator, EventContent, EventRecord};
use crate::api::{ApiErrorKind, TypedApi, Wire, error_kind, retry_after};

/// Queue length for each kind. Each starting container has three events; all events of a full node fit while all of its pods start
/// and nothing is written before a quiet period.
const QUEUE: usize = 4000;

/// The source component of a kubelet's events.
const COMPONENT: &str = "kubelet";

/// Maximum delay of a normal event until a quiet period.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Attempts to reach the server for an event, and the pause between them.
const ATTEMPTS: usize = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// Maximum length of an object's name (RFC 1123 subdomain).
const MAX_NAME: usize = 253;

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// A recorded event with its time.
#[derive(Debug)]
struct RecordedEvent {
    at: Timestamp,
    since: Instant,
    record: EventRecord,
}

/// The event recorder. Cheap to clone; never blocks.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    warnings: mpsc::Sender<RecordedEvent>,
    normal: mpsc::Sender<RecordedEvent>,
    dropped: Arc<AtomicU64>,
    clock: WallClock,
}

impl EventRecorder {
    /// Records an event. It is dropped if the queue is full because the server has not accepted earlier ones.
    pub fn record(&self, record: EventRecord) {
        match record.kind {
            EventKind::Warning => self.queue(&self.warnings, record),
            EventKind::Normal => self.queue(&self.normal, record),
        }
    }

    /// The same, written at once whatever its kind.
    pub fn record_at_once(&self, record: EventRecord) {
        self.queue(&self.warnings, record);
    }

    /// The events that were dropped since the last report.
    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn queue(&self, queue: &mpsc::Sender<RecordedEvent>, record: EventRecord) {
        if queue.try_send(RecordedEvent { at: self.clock.now(), since: Instant::now(), record }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The task that writes events; run by the app.
pub struct EventSink {
    client: Client,
    node_name: String,
    warnings: mpsc::Receiver<RecordedEvent>,
    normal: mpsc::Receiver<RecordedEvent>,
    /// The first normal event, which waits for a quiet period.
    waiting: Option<RecordedEvent>,
    dropped: Arc<AtomicU64>,
    correlator: Correlator,
    /// Makes names of events in the same nanosecond unique.
    last_name: i128,
}

/// Creates the recorder of the kubelet on `node_name` and its task, which writes through `client`; the client's rate limit
/// should be `eventRecordQPS` and `eventBurst`.
pub fn recorder(client: Client, node_name: String, clock: WallClock) -> (EventRecorder, EventSink) {
    let (send_warnings, warnings) = mpsc::channel(QUEUE);
    let (send_normal, normal) = mpsc::channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let recorder =
        EventRecorder { warnings: send_warnings, normal: send_normal, dropped: dropped.clone(), clock };
    let correlator = Correlator::default();
    let sink =
        EventSink { client, node_name, warnings, normal, waiting: None, dropped, correlator, last_name: 0 };
    (recorder, sink)
}

impl EventSink {
    /// Runs until cancelled; unwritten events are lost.
    pub async fn run(mut self, quiet_period: QuietPeriod, cancel: CancellationToken) {
        loop {
            let since = self.waiting.as_ref().map(|recorded| recorded.since);
            let latest = since.unwrap_or_else(Instant::now) + MAX_DELAY;
            let recorded = tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a channel yields an item only when `recv` returns.
                Some(recorded) = self.warnings.recv() => Some(recorded),
                // Cancel-safe: as above.
                Some(recorded) = self.normal.recv(), if since.is_none() => {
                    self.waiting = Some(recorded);
                    None
                }
                // Cancel-safe: waits for a quiet period.
                () = quiet_period.begins(latest), if since.is_some() => self.waiting.take(),
            };
            let Some(RecordedEvent { at, record, .. }) = recorded else { continue };
            let Some(content) = self.correlator.observe(&record, at, Instant::now()) else { continue };
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Dropped only at shutdown; the event is lost.
                () = self.write(&record, at, content) => {}
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(
                    dropped,
                    "events were dropped: the API server does not accept them fast enough"
                );
            }
        }
    }

    /// Writes an event. While the server cannot be reached, all others wait, in order. An event that the server rejects is dropped,
    /// whatever the reason: the next one may be welcome, for instance if a webhook that is down is asked about some namespaces only.
    async fn write(&mut self, record: &EventRecord, at: Timestamp, mut content: EventContent) {
        for attempt in 0..ATTEMPTS {
            let name = content.name.clone();
            let result = tokio::time::timeout(ATTEMPT_TIMEOUT, self.try_write(record, at, &content)).await;
            let error = match result {
                Ok(Ok(name)) => return self.correlator.written(&content.key, name),
                Ok(Err(error)) => error,
                Err(_elapsed) => {
                    tokio::time::sleep(pause(attempt)).await;
                    continue;
                }
            };
            let kind = error_kind(&error);
            // The event object has expired: by default, the API server stores events for an hour.
            if name.is_some() && kind == ApiErrorKind::NotFound {
                self.correlator.lost(&content.key);
                content.name = None;
                continue;
            }
            match pause_after(&error, attempt) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return log_rejection(&record.reason, kind, &error),
            }
        }
        tracing::warn!(
            reason = record.reason,
            "an event could not be written after many attempts; it is dropped"
        );
    }

    /// Makes one attempt. Returns the name of the written event object.
    async fn try_write(
        &mut self,
        record: &EventRecord,
        at: Timestamp,
        content: &EventContent,
    ) -> Result<String, kube::Error> {
        // Events of cluster-scoped objects are in this namespace.
        let namespace = record.object.namespace.as_deref().unwrap_or("default");
        let events = TypedApi::<Event>::namespaced(self.client.clone(), namespace);
        if let Some(name) = &content.name {
            let change =
                json!({"count": content.count, "lastTimestamp": Time(at), "message": content.message});
            events.patch(name, &PatchParams::default(), &Patch::Strategic(change)).await?;
            return Ok(name.clone());
        }
        let event = self.event(record, at, content, namespace);
        let name = event.metadata.name.clone().unwrap_or_default();
        events.create(&PostParams::default(), &Wire(event)).await?;
        Ok(name)
    }

    fn event(
        &mut self,
        record: &EventRecord,
        at: Timestamp,
        content: &EventContent,
        namespace: &str,
    ) -> Event {
        self.last_name = at.as_nanosecond().max(self.last_name + 1);
        let object = record.object.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(object, self.last_name)),
                namespace: Some(namespace.to_owned()),
                annotations: Some(record.annotations.clone()).filter(|annotations| !annotations.is_empty()),
                ..ObjectMeta::default()
            },
            involved_object: record.object.clone(),
            type_: Some(record.kind.as_str().to_owned()),
            reason: Some(record.reason.clone()),
            message: Some(content.message.clone()),
            count: Some(content.count),
            first_timestamp: Some(Time(content.first)),
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

/// The pause until an event is written again; `None` if the server rejects it.
fn pause_after(error: &kube::Error, attempt: usize) -> Option<Duration> {
    match error {
        kube::Error::Api(status) if status.code != 429 => retry_after(error),
        _ => Some(retry_after(error).unwrap_or_else(|| pause(attempt))),
    }
}

/// The pause after an attempt. As upstream's, the first one is random, because the outage of a server begins for all nodes at once.
fn pause(attempt: usize) -> Duration {
    if attempt == 0 { PAUSE.mul_f64(rand::random()) } else { PAUSE }
}

fn log_rejection(reason: &str, kind: ApiErrorKind, error: &kube::Error) {
    const TEXT: &str = "the API server rejected an event; it is dropped";
    let error = error_chain(error);
    match kind {
        // As in a namespace that is being deleted.
        ApiErrorKind::NotFound
        | ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Forbidden => tracing::debug!(reason, error, "{TEXT}"),
        ApiErrorKind::Invalid | ApiErrorKind::TooMany(_) | ApiErrorKind::Unavailable => {
            tracing::warn!(reason, error, "{TEXT}");
        }
    }
}

/// The name of an event of this object. Upstream uses a random one if it would be no valid name, for instance because the object's own is
/// too long.
fn event_name(object: &str, nanosecond: i128) -> String {
    let name = format!("{object}.{nanosecond:x}");
    let is_label = |label: &str| {
        let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_valid)
    };
    if name.len() <= MAX_NAME && name.split('.').all(is_label) {
        return name;
    }
    format!("{:032x}", rand::random::<u128>())
}
