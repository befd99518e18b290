//! The steps of the work on each pod, with their durations. In memory and bounded; decides nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::step_times::StepTimes;
use super::{Activity, ImageOwner, ImagePull};
use hostlet_base::{CONFIG_SEEN_ANNOTATION, EventKind, PodEvent, PodRef, PodUid, reasons};
use hostlet_pod::pod_ref;
use hostlet_telemetry::{Metrics, record_span};

/// Entries kept per pod; the oldest are dropped first.
const MAX_ENTRIES: usize = 64;
/// Deleted pods kept; the ones deleted longest ago are dropped first.
const MAX_DELETED: usize = 128;
/// A shorter wait at a gate is not recorded.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

/// A step of the work on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimelineStep {
    /// A source named it for the first time.
    Seen,
    /// It was admitted.
    Admitted,
    /// It was rejected.
    Rejected,
    /// It waited at the start gate.
    #[serde(rename = "turn")]
    QueuedStart,
    /// The volumes were set up.
    Volumes,
    /// Claimed devices were prepared.
    PrepareClaims,
    /// The sandbox was created.
    Sandbox,
    /// The sandbox has its addresses.
    Network,
    /// The image of a container was pulled.
    Pull,
    /// The image of an image volume was pulled.
    PullVolume,
    /// A container was created.
    Create,
    /// A container was started.
    Start,
    /// The postStart hook of a container ran.
    PostStart,
    /// A container runs.
    Running,
    /// A container terminated by itself.
    Ended,
    /// The result of a container's probes changed.
    Probed,
    /// A container waits to be restarted.
    BackOff,
    /// Something failed.
    Failed,
    /// The node shuts down, and terminates it.
    Shutdown,
    /// It used more than its limits allow, and is terminated.
    Evicted,
    /// It was active for longer than its deadline allows, and is terminated.
    Deadline,
    /// A container is being killed.
    Killing,
    /// The preStop hook of a container begins.
    PreStop,
    /// Containers are being stopped.
    Stop,
    /// The sandbox was stopped.
    StopSandbox,
    /// Nothing of the pod runs.
    Stopped,
    /// Claimed devices were unprepared.
    UnprepareClaims,
    /// What the pod left was cleaned up.
    CleanUp,
    /// Nothing is left of it.
    Removed,
}

impl TimelineStep {
    /// Its name if it is work; waits for a restart and instantaneous steps are none.
    fn name_of_work(self) -> Option<&'static str> {
        match self {
            Self::QueuedStart => Some("turn"),
            Self::Volumes => Some("volumes"),
            Self::PrepareClaims => Some("prepare-claims"),
            Self::Sandbox => Some("sandbox"),
            Self::Pull => Some("pull"),
            Self::PullVolume => Some("pull-volume"),
            Self::Create => Some("create"),
            Self::Start => Some("start"),
            Self::PostStart => Some("post-start"),
            Self::Stop => Some("stop"),
            Self::StopSandbox => Some("stop-sandbox"),
            Self::UnprepareClaims => Some("unprepare-claims"),
            Self::CleanUp => Some("clean-up"),
            Self::BackOff
            | Self::Seen
            | Self::Admitted
            | Self::Rejected
            | Self::Network
            | Self::Running
            | Self::Probed
            | Self::Ended
            | Self::Failed
            | Self::Shutdown
            | Self::Evicted
            | Self::Deadline
            | Self::Killing
            | Self::PreStop
            | Self::Stopped
            | Self::Removed => None,
        }
    }
}

/// One step of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// When it began.
    pub at: Timestamp,
    /// What was done, or happened.
    pub step: TimelineStep,
    /// Duration, milliseconds; none for instantaneous and for unfinished steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The container and the result.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
    /// How often the step occurred in a row.
    pub times: u32,
}

/// The steps of one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTimeline {
    /// The namespace that it is in.
    pub namespace: String,
    /// `metadata.name`, with the node's name if it is a static pod.
    pub name: String,
    /// The UID, which tells it from an earlier pod of that name.
    pub uid: String,
    /// Whether the pod was deleted.
    #[serde(rename = "gone")]
    pub is_deleted: bool,
    /// Its steps, oldest first.
    pub entries: VecDeque<TimelineEntry>,
}

/// The record of a pod.
struct Record {
    pod: PodRef,
    entries: VecDeque<TimelineEntry>,
    /// Whether the step of the worker is unfinished.
    is_open: bool,
}

#[derive(Default)]
struct State {
    pods: HashMap<PodUid, Record>,
    /// The deleted ones, longest ago first.
    deleted: VecDeque<PodUid>,
}

/// The steps of all pods. Cheap to clone; all clones share its state.
#[derive(Clone, Default)]
pub struct Timeline {
    state: Arc<Mutex<State>>,
    times: StepTimes,
}

impl Timeline {
    /// Counts the duration of a step that is work.
    fn measured(&self, step: TimelineStep, took: Duration) {
        if let Some(name) = step.name_of_work() {
            self.times.ended(name, took);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every statement under the lock leaves the state valid.
        self.state.lock()
    }

    /// Adds the durations of its steps to the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.times.register(metrics);
    }

    /// Records that the pod was admitted. Repeated calls are ignored.
    pub fn admitted(&self, pod: &Pod, now: Timestamp) {
        self.record_admission(pod, TimelineStep::Admitted, String::new(), now);
    }

    /// Records that the pod was rejected, with the message of its status. Repeated calls are ignored.
    pub fn rejected(&self, pod: &Pod, message: &str, now: Timestamp) {
        self.record_admission(pod, TimelineStep::Rejected, message.to_owned(), now);
    }

    fn record_admission(&self, pod: &Pod, verdict: TimelineStep, detail: String, now: Timestamp) {
        let reference = pod_ref(pod);
        let mut state = self.lock();
        let known = state.pods.get(&reference.uid).filter(|_| !state.deleted.contains(&reference.uid));
        let last = known.and_then(|r| {
            r.entries.iter().rev().find(|e| matches!(e.step, TimelineStep::Admitted | TimelineStep::Rejected))
        });
        // The record of a long-lived pod no longer has its oldest entries.
        if known.is_some() && last.is_none_or(|last| last.step == verdict) {
            return;
        }
        let annotations = pod.metadata.annotations.as_ref();
        let seen = annotations.and_then(|a| a.get(CONFIG_SEEN_ANNOTATION)?.parse().ok());
        let is_new = known.is_none();
        let record = state.revive(&reference);
        if is_new && let Some(seen) = seen {
            record.add(TimelineStep::Seen, String::new(), seen);
        }
        record.add(verdict, detail, now);
    }

    /// Records that a worker begins a step, which finishes the previous one.
    pub(super) fn step(&self, pod: &PodRef, activity: &Activity, now: Timestamp) {
        let started = match activity {
            // Pulls are recorded by themselves, because they go on beside other steps.
            Activity::Idle | Activity::PullingImage(_) | Activity::Retrying { .. } => None,
            Activity::QueuedStart => Some((TimelineStep::QueuedStart, String::new())),
            Activity::SettingUpVolumes => Some((TimelineStep::Volumes, String::new())),
            Activity::PreparingClaims => Some((TimelineStep::PrepareClaims, String::new())),
            Activity::UnpreparingClaims => Some((TimelineStep::UnprepareClaims, String::new())),
            Activity::MakingSandbox => Some((TimelineStep::Sandbox, String::new())),
            Activity::CreatingContainer { container } => Some((TimelineStep::Create, container.clone())),
            Activity::StartingContainer { container } => Some((TimelineStep::Start, container.clone())),
            Activity::PostStartHook { container } => Some((TimelineStep::PostStart, container.clone())),
            Activity::StoppingContainers { grace_seconds } => {
                Some((TimelineStep::Stop, format!("within {grace_seconds} s")))
            }
            Activity::StoppingSandbox => Some((TimelineStep::StopSandbox, String::new())),
            Activity::CleaningUp => Some((TimelineStep::CleanUp, String::new())),
            Activity::BackingOff => Some((TimelineStep::BackOff, String::new())),
        };
        let mut state = self.lock();
        let record = state.revive(pod);
        if let Some((step, took)) = record.close(now) {
            self.measured(step, took);
        }
        if let Some((step, detail)) = started {
            record.add(step, detail, now);
            record.is_open = true;
        }
    }

    /// Records that a pull begins, beside the step under way.
    pub(super) fn pull_begins(&self, pod: &PodRef, pull: &ImagePull, now: Timestamp) {
        let (step, detail) = pull_entry(pull);
        self.mark(pod, step, detail, now);
    }

    /// Records that a pull ended.
    pub(super) fn pull_ends(&self, pod: &PodRef, pull: &ImagePull, now: Timestamp) {
        let (step, detail) = pull_entry(pull);
        let mut state = self.lock();
        let entries = state.pods.get_mut(&pod.uid).map(|record| &mut record.entries);
        let is_this = |entry: &&mut TimelineEntry| {
            (entry.step, entry.detail.as_str(), entry.took_ms) == (step, &*detail, None)
        };
        if let Some(entry) = entries.and_then(|entries| entries.iter_mut().rev().find(is_this)) {
            let took = entry.took(now);
            entry.took_ms = Some(milliseconds(took));
            entry.trace(now);
            self.measured(step, took);
        }
    }

    /// For how long images were pulled for a pod; overlapping pulls count once.
    pub fn pulling_time(&self, pod: &PodUid) -> Duration {
        let state = self.lock();
        let entries = state.pods.get(pod).map(|record| &record.entries);
        let is_pull =
            |entry: &&TimelineEntry| matches!(entry.step, TimelineStep::Pull | TimelineStep::PullVolume);
        let (mut total, mut end) = (Duration::ZERO, Timestamp::MIN);
        for entry in entries.into_iter().flatten().filter(is_pull) {
            let took = Duration::from_millis(entry.took_ms.unwrap_or_default());
            let pulled = entry.at.saturating_add(took).unwrap_or(entry.at);
            let begin = entry.at.max(end);
            total += Duration::try_from(pulled.duration_since(begin)).unwrap_or_default();
            end = end.max(pulled);
        }
        total
    }

    /// Records an instantaneous step.
    pub fn mark(&self, pod: &PodRef, step: TimelineStep, detail: String, now: Timestamp) {
        self.lock().revive(pod).add(step, detail, now);
    }

    /// Records an event of a pod or container that adds to the steps.
    pub fn event(&self, pod: &PodRef, container: Option<&str>, event: &PodEvent, now: Timestamp) {
        let container = container.unwrap_or_default();
        let step = match (event.kind, &*event.reason) {
            (EventKind::Normal, reasons::STARTED) => TimelineStep::Running,
            (EventKind::Normal, reasons::KILLING) => TimelineStep::Killing,
            (EventKind::Normal, reasons::DEADLINE_EXCEEDED) => TimelineStep::Deadline,
            // A restart's back-off is a step of its own.
            (EventKind::Normal, _) | (EventKind::Warning, reasons::BACK_OFF) => return,
            // Repeats the previous event, with only its reason as the message.
            (EventKind::Warning, reasons::FAILED) if is_bare(&event.message) => return,
            (EventKind::Warning, _) => TimelineStep::Failed,
        };
        let detail = match (step, container) {
            (TimelineStep::Failed, "") => format!("{}: {}", event.reason, event.message),
            (TimelineStep::Failed, container) => format!("{container}: {}", event.message),
            (_, container) => container.to_owned(),
        };
        self.mark(pod, step, detail, now);
    }

    /// Marks the pods that are not in `known` as deleted.
    pub fn retain(&self, known: &HashSet<PodUid>) {
        let mut state = self.lock();
        let newly: Vec<PodUid> = state.pods.keys().filter(|uid| !known.contains(*uid)).cloned().collect();
        for uid in newly {
            if !state.deleted.contains(&uid) {
                if let Some(record) = state.pods.get_mut(&uid) {
                    record.entries.shrink_to_fit();
                }
                state.deleted.push_back(uid);
            }
        }
        while state.deleted.len() > MAX_DELETED {
            if let Some(oldest) = state.deleted.pop_front() {
                state.pods.remove(&oldest);
            }
        }
    }

    /// The timelines of the pods that `selected` picks, timelines of deleted pods first, then by their first entry.
    pub fn tracks(&self, selected: impl Fn(&PodRef) -> bool) -> Vec<PodTimeline> {
        let state = self.lock();
        let picked = state.pods.values().filter(|record| selected(&record.pod));
        let mut tracks: Vec<PodTimeline> = picked
            .map(|record| PodTimeline {
                namespace: record.pod.namespace.to_string(),
                name: record.pod.name.to_string(),
                uid: record.pod.uid.to_string(),
                is_deleted: state.deleted.contains(&record.pod.uid),
                entries: record.entries.clone(),
            })
            .collect();
        tracks.sort_by_key(|track| (!track.is_deleted, track.entries.front().map(|entry| entry.at)));
        tracks
    }

    /// All pods with a timeline.
    pub fn pods(&self) -> Vec<PodRef> {
        self.lock().pods.values().map(|record| record.pod.clone()).collect()
    }
}

impl State {
    /// The record of a pod, no longer marked as deleted.
    fn revive(&mut self, pod: &PodRef) -> &mut Record {
        if !self.deleted.is_empty() {
            self.deleted.retain(|uid| *uid != pod.uid);
        }
        self.pods.entry(pod.uid.clone()).or_insert_with(|| Record {
            pod: pod.clone(),
            entries: VecDeque::new(),
            is_open: false,
        })
    }
}

impl Record {
    /// Adds a step. An instantaneous step does not finish the one under way.
    fn add(&mut self, step: TimelineStep, detail: String, at: Timestamp) {
        if let Some(last) = self.entries.back_mut()
            && (last.step, last.detail.as_str()) == (step, detail.as_str())
        {
            last.times = last.times.saturating_add(1);
            return;
        }
        let entry = TimelineEntry { at, step, took_ms: None, detail, times: 1 };
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Finishes the step under way, if any, and returns it with its duration.
    fn close(&mut self, now: Timestamp) -> Option<(TimelineStep, Duration)> {
        if !std::mem::take(&mut self.is_open) {
            return None;
        }
        let is_step = |entry: &TimelineEntry| entry.took_ms.is_none() && lasts_until_next(entry.step);
        let index = self.entries.iter().rposition(is_step)?;
        let entry = self.entries.get_mut(index)?;
        let (step, took) = (entry.step, entry.took(now));
        if step == TimelineStep::QueuedStart && took < SHORTEST_WAIT {
            self.entries.remove(index);
        } else {
            entry.took_ms = Some(milliseconds(took));
            entry.trace(now);
        }
        Some((step, took))
    }
}

impl TimelineEntry {
    /// Adds the step, which has ended, to the trace of the work that it is a part of.
    fn trace(&self, now: Timestamp) {
        // A repeated step began when it occurred first.
        if let (Some(name), 1) = (self.step.name_of_work(), self.times) {
            record_span(name, self.at, now, || match &*self.detail {
                "" => Vec::new(),
                detail => vec![("detail", detail.to_owned())],
            });
        }
    }

    /// The time since it began.
    fn took(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.at)).unwrap_or_default()
    }
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// The step of a pull, and its detail.
fn pull_entry(pull: &ImagePull) -> (TimelineStep, String) {
    let ImagePull { owner, image } = pull;
    match owner {
        ImageOwner::Container(container) => (TimelineStep::Pull, format!("{container}: {image}")),
        ImageOwner::Volume(volume) => (TimelineStep::PullVolume, format!("{volume}: {image}")),
    }
}

fn is_bare(message: &str) -> bool {
    message.strip_prefix("Error: ").is_some_and(|error| !error.contains(' '))
}

/// Whether a step lasts until the worker begins the next one.
fn lasts_until_next(step: TimelineStep) -> bool {
    match step {
        TimelineStep::QueuedStart
        | TimelineStep::Volumes
        | TimelineStep::PrepareClaims
        | TimelineStep::UnprepareClaims
        | TimelineStep::Sandbox
        | TimelineStep::Create
        | TimelineStep::Start
        | TimelineStep::PostStart
        | TimelineStep::BackOff
        | TimelineStep::Stop
        | TimelineStep::StopSandbox
        | TimelineStep::CleanUp => true,
        TimelineStep::Seen
        | TimelineStep::Admitted
        | TimelineStep::Rejected
        | TimelineStep::Network
        | TimelineStep::Pull
        | TimelineStep::PullVolume
        | TimelineStep::Running
        | TimelineStep::Probed
        | TimelineStep::Ended
        | TimelineStep::Failed
        | TimelineStep::Shutdown
        | TimelineStep::Evicted
        | TimelineStep::Deadline
        | TimelineStep::Killing
        | TimelineStep::PreStop
        | TimelineStep::Stopped
        | TimelineStep::Removed => false,
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
