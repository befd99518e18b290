//! The task: compares each pod's reported status with its object and writes the difference. One write at a time per pod, a
//! bounded number overall. A failed write is planned again from the latest status, so an old status is never sent late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use hostlet_base::{Backoff, BackoffPolicy, PodUid, QuietPeriod, WallClock, error_chain, sleep_until};
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{LifecycleSummary, PodDirectory, PublishProgress};
use hostlet_pod::{ApiPod, ApiState, Mirror, has_ended, is_static};
use hostlet_telemetry::{Changed, Metrics};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::{PublishMetrics, StartWatch};
use super::plan::{Live, ReportedPod, Urgency, Write, plan};
use crate::api::{ApiErrorKind, PrioritizedClients, TypedApi, Wire, error_kind, pause};

/// Delay of a deferrable change, to combine it with others of the same pod.
const SOON: Duration = Duration::from_secs(2);

/// Delay of a pod's first status, longer than most starts take.
const FIRST: Duration = Duration::from_millis(500);

/// Further delay while pods start and stop, to combine more changes and to relieve the API server. Upstream's total bound is
/// 10 s.
const MAX_EXTRA_DELAY: Duration = Duration::from_secs(8);

/// Maximum number of parallel writes: enough for many pods on a slow server, few enough to leave capacity to others.
const MAX_WRITES: usize = 16;

/// Timeout of a request. If a write took effect without a response, the watch shows it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(10),
    reset_after: Duration::from_secs(60),
};

/// Back-off of a write that the API server accepts but does not store (a webhook strips a field, or the server does not know
/// it): rare, because it may be stored later.
const NOT_STORED: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(2),
    max: Duration::from_secs(600),
    reset_after: Duration::from_secs(3600),
};

/// What the status manager reads.
#[derive(Clone)]
pub struct StatusManagerDeps {
    /// The pods with their statuses, and the rejected ones with the status that says why.
    pub pods: PodDirectory,
    /// How long pods pulled images.
    pub timeline: Timeline,
    /// The pods on the API server.
    pub api: watch::Receiver<ApiState>,
    /// Signals when no pod starts or stops.
    pub quiet_period: QuietPeriod,
    /// The time of day.
    pub clock: WallClock,
}

/// The status manager; run by the app.
pub struct StatusManager {
    clients: PrioritizedClients,
    deps: StatusManagerDeps,
    entries: BTreeMap<PodUid, Entry>,
    writes: FuturesUnordered<BoxFuture<'static, (PodUid, String, Written)>>,
    /// The last error of a write: a server that is down is logged once, not once per pod.
    last_error: Changed<String>,
    progress: watch::Sender<PublishProgress>,
    metrics: PublishMetrics,
}

/// A reported status, as owned values that are cheap to compare.
#[derive(Clone, Debug)]
struct ReportedStatus {
    status: Arc<PodStatus>,
    lifecycle: LifecycleSummary,
    has_released: bool,
}

/// A pod's object.
#[derive(Debug)]
struct Object {
    /// Where it comes from.
    api_object: ApiObject,
    namespace: String,
    name: String,
    uid: String,
    version: String,
    status: Arc<PodStatus>,
    is_deleting: bool,
    is_mirror: bool,
}

/// The shared object that an [`Object`] was read from; the same pointer as long as nothing changed.
#[derive(Clone, Debug)]
enum ApiObject {
    /// The pod's own.
    Pod(Arc<ApiPod>),
    /// The mirror pod of a static pod.
    Mirror(Arc<Mirror>),
}

#[derive(Debug, Default)]
struct Entry {
    reported: Option<ReportedStatus>,
    object: Option<Object>,
    /// The version and status after our last write, which the watch may not have shown yet.
    written: Option<(String, Arc<PodStatus>)>,
    next: Option<Next>,
    is_busy: bool,
    /// The object was deleted and needs no more writes, though the watch may not have shown it yet.
    is_deleted: bool,
    retry: Option<Backoff<Instant>>,
    not_before: Option<Instant>,
    /// The status reported at the time of the current or last write.
    sent: Option<Arc<PodStatus>>,
    /// The API server accepted the last patch but did not keep it.
    not_stored: Option<Backoff<Instant>>,
    /// When the first of the changes was reported that no write has had yet.
    behind_since: Option<Instant>,
    /// The same of the changes in the current write.
    sent_since: Option<Instant>,
    start: StartWatch,
}

/// The next write of a pod.
#[derive(Debug)]
struct Next {
    due: Instant,
    /// Deadline of the wait for a quiet period, if it waits.
    latest: Instant,
    request: Request,
}

/// A write.
#[derive(Debug)]
enum Request {
    /// Apply this strategic merge patch to the status.
    Patch(Value),
    /// Delete the object.
    Delete,
}

enum Written {
    /// The current object.
    Patched(Box<Pod>),
    Deleted,
    Failed(kube::Error),
    TimedOut,
}

impl StatusManager {
    /// Creates a status manager that writes through `clients`, terminal statuses and deletions through the urgent one.
    pub fn new(clients: PrioritizedClients, deps: StatusManagerDeps) -> Self {
        Self {
            clients,
            deps,
            entries: BTreeMap::new(),
            writes: FuturesUnordered::new(),
            last_error: Changed::new(),
            progress: watch::Sender::default(),
            metrics: PublishMetrics::default(),
        }
    }

    /// Adds its metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
    }

    /// How far the API server is behind.
    pub fn progress(&self) -> watch::Receiver<PublishProgress> {
        self.progress.subscribe()
    }

    /// Runs until cancelled, which drops the writes in progress; the next daemon starts from their result.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut pods = self.deps.pods.changes();
        let mut api = self.deps.api.clone();
        loop {
            let version = pods.mark_seen();
            self.refresh(Instant::now());
            self.start(Instant::now());
            self.show_progress(version);
            let due = self.next_due(self.deps.quiet_period.expected());
            let is_open = tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe as documented there.
                changed = pods.changed() => changed.is_ok(),
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                changed = api.changed() => changed.is_ok(),
                // Cancel-safe: a stream yields an item only when `next` returns.
                Some((uid, object, written)) = self.writes.next() => {
                    self.finished(&uid, object, written, Instant::now());
                    true
                }
                // Cancel-safe: a sleep.
                () = sleep_until(due) => true,
            };
            if !is_open {
                // The senders close only at shutdown.
                return cancel.cancelled().await;
            }
        }
    }

    /// Reads the reported statuses and the objects, and plans again for every pod with a change.
    fn refresh(&mut self, now: Instant) {
        let pods = self.deps.pods.all();
        let api = self.deps.api.borrow().clone();
        self.entries.retain(|uid, entry| pods.contains_key(uid) || entry.is_busy);
        for (uid, pod) in pods {
            let status = ReportedStatus {
                status: pod.status().clone(),
                lifecycle: pod.lifecycle(),
                has_released: pod.has_released(),
            };
            let api_object = api_object(&api, &uid, pod.object());
            let entry = self.entries.entry(uid.clone()).or_default();
            if entry.update(status, api_object, now) {
                entry.plan(&uid, now);
                if let Some(started) = entry.has_started() {
                    let pulling = self.deps.timeline.pulling_time(&uid);
                    self.metrics.started(&started.pod, &started.status, pulling, self.deps.clock.now());
                }
            }
        }
    }

    /// Starts the writes that are due, up to the limit; first those of pods that have ended, for which others wait.
    fn start(&mut self, now: Instant) {
        let quiet = self.deps.quiet_period.expected();
        let is_due = |entry: &Entry| !entry.is_busy && entry.due(quiet).is_some_and(|due| due <= now);
        let due = self.entries.iter().filter(|(_, entry)| is_due(entry));
        let mut due: Vec<(bool, PodUid)> = due.map(|(uid, entry)| (!entry.ends(), uid.clone())).collect();
        due.sort();
        for (is_normal, uid) in due.into_iter().take(MAX_WRITES.saturating_sub(self.writes.len())) {
            let Some(entry) = self.entries.get_mut(&uid) else { continue };
            let (Some(Next { request, .. }), Some(object)) = (entry.next.take(), &entry.object) else {
                continue;
            };
            entry.is_busy = true;
            entry.sent = entry.reported.as_ref().map(|status| status.status.clone());
            entry.sent_since = entry.behind_since.take();
            let client = if is_normal { &self.clients.normal } else { &self.clients.urgent };
            let pods = TypedApi::<Pod>::namespaced(client.clone(), &object.namespace);
            let (name, of) = (object.name.clone(), object.uid.clone());
            self.writes.push(Box::pin(async move {
                let written =
                    tokio::time::timeout(REQUEST_TIMEOUT, perform(pods, name, of.clone(), request)).await;
                (uid, of, written.unwrap_or(Written::TimedOut))
            }));
        }
    }

    fn show_progress(&self, version: u64) {
        let is_behind = |entry: &&Entry| entry.is_busy || entry.next.is_some();
        let progress = PublishProgress { version, behind: self.entries.values().filter(is_behind).count() };
        self.progress.send_if_modified(|known| {
            let is_news = *known != progress;
            *known = progress;
            is_news
        });
    }

    /// When the next write is due, if the next quiet period is expected at `quiet`.
    fn next_due(&self, quiet: Option<Instant>) -> Option<Instant> {
        if self.writes.len() >= MAX_WRITES {
            return None;
        }
        self.entries.values().filter(|entry| !entry.is_busy).filter_map(|entry| entry.due(quiet)).min()
    }

    fn finished(&mut self, uid: &PodUid, object: String, written: Written, now: Instant) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.is_busy = false;
        let was_written = matches!(written, Written::Patched(_) | Written::Deleted);
        let error = entry.settle(&object, written, now);
        if was_written && error.is_none() {
            self.last_error = Changed::new();
        }
        if let Some(error) = error
            && self.last_error.see(error.clone())
        {
            tracing::warn!(%uid, error, "cannot write the status of a pod; retrying");
        }
        match entry.sent_since.take() {
            Some(since) if was_written => self.metrics.synced(now.duration_since(since)),
            Some(since) => entry.behind_since = Some(since),
            None => {}
        }
        entry.plan(uid, now);
        if was_written {
            entry.check_that_it_was_stored(uid, now);
        }
    }
}

impl Entry {
    /// Updates the entry; returns whether anything changed.
    fn update(&mut self, status: ReportedStatus, api_object: Option<ApiObject>, now: Instant) -> bool {
        let same_status = self.reported.as_ref().is_some_and(|old| {
            Arc::ptr_eq(&old.status, &status.status)
                && old.lifecycle == status.lifecycle
                && old.has_released == status.has_released
        });
        if !same_status {
            self.behind_since.get_or_insert(now);
            if self.not_stored.is_some() {
                // Only a repeated write is delayed.
                self.not_before = None;
            }
        }
        self.reported = Some(status);
        let is_known = match (&self.object, &api_object) {
            (Some(object), Some(api_object)) => object.api_object.is(api_object),
            (None, None) => true,
            _ => false,
        };
        if is_known {
            return !same_status;
        }
        let object = api_object.map(Object::new);
        // An object with another UID, such as a mirror that was created again, has no history.
        if self.object.as_ref().map(|o| &o.uid) != object.as_ref().map(|o| &o.uid) {
            self.written = None;
            self.is_deleted = false;
            (self.sent, self.not_stored) = (None, None);
            self.behind_since = self.sent_since.take().or(self.behind_since);
        }
        self.object = object;
        true
    }

    /// The pod, if the API server shows for the first time that it has started.
    fn has_started(&mut self) -> Option<Arc<ApiPod>> {
        match &self.object.as_ref()?.api_object {
            ApiObject::Pod(pod) => self.start.see(&pod.status).then(|| pod.clone()),
            ApiObject::Mirror(_) => None,
        }
    }

    /// Plans the next write. A pending one keeps its due time.
    fn plan(&mut self, uid: &PodUid, now: Instant) {
        let before = self.next.take();
        let (Some(reported), Some(object)) = (&self.reported, &self.object) else { return };
        if self.is_deleted || self.is_busy {
            return;
        }
        let status = match &self.written {
            Some((version, status)) if !is_newer(&object.version, version) => status,
            Some(_) | None => &object.status,
        };
        let reported = ReportedPod {
            status: &reported.status,
            lifecycle: reported.lifecycle,
            has_released: reported.has_released,
        };
        let live = Live {
            uid: &object.uid,
            status,
            is_deleting: object.is_deleting,
            is_mirror: object.is_mirror,
            spec: object.spec(),
        };
        self.next = match plan(reported, live) {
            Write::Nothing => None,
            Write::Impossible(container) => {
                let pod = format!("{}/{}", object.namespace, object.name);
                tracing::error!(pod, %uid, container, "a container that must not restart is reported as running again; the status is not written");
                None
            }
            Write::Delete => Some(Next { due: now, latest: now, request: Request::Delete }),
            Write::Patch(change, Urgency::Now) => {
                Some(Next { due: now, latest: now, request: Request::Patch(change) })
            }
            Write::Patch(change, urgency @ (Urgency::First | Urgency::Soon)) => {
                let delay = if urgency == Urgency::First { FIRST } else { SOON };
                let due = before.map_or(now + delay, |before| before.due);
                Some(Next { due, latest: due + MAX_EXTRA_DELAY, request: Request::Patch(change) })
            }
        };
        if !matches!(self.next, Some(Next { request: Request::Patch(_), .. })) {
            self.behind_since = None;
        }
    }

    /// Whether the next write is the pod's end: its terminal status, or the deletion of its object.
    fn ends(&self) -> bool {
        match self.next.as_ref().map(|next| &next.request) {
            Some(Request::Delete) => true,
            Some(Request::Patch(_)) => self.reported.as_ref().is_some_and(|pod| has_ended(&pod.status)),
            None => false,
        }
    }

    fn due(&self, quiet: Option<Instant>) -> Option<Instant> {
        let Next { due, latest, .. } = self.next.as_ref()?;
        let due = quiet.map_or(*due, |quiet| quiet.min(*latest).max(*due));
        Some(self.not_before.map_or(due, |not_before| not_before.max(due)))
    }

    /// Records the outcome of a write to this object. Returns the error, if any.
    fn settle(&mut self, object: &str, written: Written, now: Instant) -> Option<String> {
        // If a mirror was created again meanwhile, the outcome does not apply to it.
        if self.object.as_ref().is_none_or(|present| present.uid != object) {
            return None;
        }
        let error = match written {
            Written::Patched(pod) => {
                let Pod { metadata, status, .. } = *pod;
                let status = Arc::new(status.unwrap_or_default());
                self.written = Some((metadata.resource_version.unwrap_or_default(), status));
                (self.retry, self.not_before) = (None, None);
                return None;
            }
            Written::Deleted => {
                self.is_deleted = true;
                return None;
            }
            Written::TimedOut => {
                self.wait(Duration::ZERO, now);
                return Some("the API server did not answer in time".to_owned());
            }
            Written::Failed(error) => error,
        };
        match error_kind(&error) {
            // If the object really was deleted, the watch will show it. Otherwise the server or a proxy was wrong.
            ApiErrorKind::NotFound => {
                self.wait(Duration::ZERO, now);
                if self.retry.is_none_or(|retry| retry.delay < RETRY.max) {
                    return None;
                }
            }
            kind @ ApiErrorKind::TooMany(_) => self.wait(kind.retry_after(), now),
            ApiErrorKind::Conflict
            | ApiErrorKind::AlreadyExists
            | ApiErrorKind::Forbidden
            | ApiErrorKind::Invalid
            | ApiErrorKind::Unavailable => self.wait(Duration::ZERO, now),
        }
        Some(error_chain(&error))
    }

    /// After an accepted write: whether the status still differs although nothing new was reported.
    fn check_that_it_was_stored(&mut self, uid: &PodUid, now: Instant) {
        let (Some(sent), Some(reported), Some(object)) = (&self.sent, &self.reported, &self.object) else {
            return;
        };
        if !Arc::ptr_eq(sent, &reported.status) {
            return;
        }
        let Some(Next { request: Request::Patch(again), .. }) = &self.next else {
            self.not_stored = None;
            return;
        };
        let next = Backoff::next(self.not_stored, &NOT_STORED, now, now);
        if self.not_stored.is_some_and(|before| before.delay == NOT_STORED.initial) {
            let pod = format!("{}/{}", object.namespace, object.name);
            let lost = again["status"].to_string();
            tracing::warn!(
                pod, %uid, lost,
                "the API server accepts the status of a pod but does not keep all of it; look for an admission webhook that \
                 changes pods/status; retrying with back-off"
            );
        }
        self.not_stored = Some(next);
        self.not_before = Some(now + next.delay);
    }

    fn wait(&mut self, retry_after: Duration, now: Instant) {
        let next = Backoff::next(self.retry, &RETRY, now, now);
        self.retry = Some(next);
        self.not_before = Some(now + pause(next.delay, retry_after, rand::random()));
    }
}

/// Whether resource version `a` is newer than `b`. Versions compare as numbers (KEP-5504); if they are not numbers, any
/// version other than our own counts as newer.
fn is_newer(a: &str, b: &str) -> bool {
    match (a.parse::<u128>(), b.parse::<u128>()) {
        (Ok(a), Ok(b)) => a >= b,
        _ => a != b,
    }
}

/// A pod's object: its own or its mirror pod.
fn api_object(api: &ApiState, uid: &PodUid, pod: &Pod) -> Option<ApiObject> {
    if !api.ready {
        // The stored object of an earlier daemon is no base for a patch.
        return None;
    }
    if !is_static(pod) {
        return api.pods.get(uid).cloned().map(ApiObject::Pod);
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = (text(&pod.metadata.namespace), text(&pod.metadata.name));
    let mirror = api.mirrors.get(&key).filter(|mirror| mirror.mirrored() == uid.as_str())?;
    Some(ApiObject::Mirror(mirror.clone()))
}

impl ApiObject {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(a), Self::Pod(b)) => Arc::ptr_eq(a, b),
            (Self::Mirror(a), Self::Mirror(b)) => Arc::ptr_eq(a, b),
            (Self::Pod(_), Self::Mirror(_)) | (Self::Mirror(_), Self::Pod(_)) => false,
        }
    }
}

impl Object {
    fn spec(&self) -> Option<&PodSpec> {
        match &self.api_object {
            ApiObject::Pod(api) => api.pod.spec.as_ref(),
            ApiObject::Mirror(mirror) => mirror.pod.spec.as_ref(),
        }
    }

    fn new(api_object: ApiObject) -> Self {
        let (pod, version, status, is_mirror) = match &api_object {
            ApiObject::Pod(api) => (&api.pod, Some(api.version.clone()), api.status.clone(), false),
            ApiObject::Mirror(mirror) => {
                let status = mirror.pod.status.clone().unwrap_or_default();
                (&mirror.pod, mirror.pod.metadata.resource_version.clone(), Arc::new(status), true)
            }
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let metadata = &pod.metadata;
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            version: version.unwrap_or_default(),
            status,
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_mirror,
            api_object,
        }
    }
}

async fn perform(pods: TypedApi<Pod>, name: String, uid: String, request: Request) -> Written {
    match request {
        Request::Patch(change) => {
            let patched = pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(change)).await;
            patched.map_or_else(Written::Failed, |Wire(pod)| Written::Patched(Box::new(pod)))
        }
        Request::Delete => {
            let only_this = Preconditions { uid: Some(uid), resource_version: None };
            let params = DeleteParams::default().grace_period(0).preconditions(only_this);
            match pods.delete(&name, &params).await {
                Ok(_) => Written::Deleted,
                Err(error) => Written::Failed(error),
            }
        }
    }
}
