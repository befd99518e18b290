//! The task that runs all probes. It sleeps until one is due, a status changes or a run ends; every run is a future of its own, so a slow one
//! delays no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use hostlet_base::{PodEvent, PodUid, WallClock, sleep_until};
use hostlet_observe::status::timeline::{Timeline, TimelineStep};
use hostlet_observe::status::{PodStatusEntry, StatusCache, StatusHandle};
use hostlet_pod::{AdmittedPod, FailingProbe, FailingProbes, PodEvents, PodProbes, ProbeKind, ProbeResults};
use hostlet_runtime::cri::RuntimeService;
use hostlet_store::Store;
use hostlet_telemetry::Heartbeat;
use k8s_openapi::api::core::v1::PodStatus as ApiStatus;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Attempt};
use super::attempt::ProbeRunner;
use super::metrics::ProbeMetrics;
use super::schedule::{Finish, Now, Run, Schedule};
use super::state::Verdict;
use super::stored;
use super::target::{SeenPod, has_probes};

/// Runs at once, of all pods. A run takes a few KiB and a socket; this many are rarely under way even if every server on a large node hangs,
/// as each ends with its time limit, and they bound what that costs. Further runs wait.
const MAX_RUNNING: usize = 1024;

/// What probes need and affect.
pub(crate) struct ProberDeps {
    /// Runs the commands of exec probes.
    pub runtime: Arc<dyn RuntimeService>,
    /// What runs, and where.
    pub status_cache: StatusCache,
    /// Receives the results.
    pub timeline: Timeline,
    /// Notified of pods whose status changes.
    pub statuses: StatusHandle,
    /// Receives the findings.
    pub results: ProbeResults,
    /// Receives the answers of failing probes.
    pub failing: FailingProbes,
    /// Counts runs.
    pub metrics: ProbeMetrics,
    /// Keeps the findings for the next daemon.
    pub store: Store,
    /// Receives events.
    pub events: PodEvents,
    /// The time of day.
    pub clock: WallClock,
}

/// What was last taken in of a pod.
struct Taken {
    pod: Arc<AdmittedPod>,
    status: Arc<ApiStatus>,
    is_ending: bool,
}

type Ended = (Run, Attempt, Duration);

/// Runs all probes, to be run by the app.
pub(crate) struct Prober {
    deps: ProberDeps,
    runner: Arc<ProbeRunner>,
    schedule: Schedule,
    taken: HashMap<PodUid, Taken>,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    chance: StdRng,
    heartbeat: Heartbeat,
}

fn now(deps: &ProberDeps) -> Now {
    Now { instant: Instant::now(), wall: deps.clock.now(), uptime: deps.clock.uptime() }
}

impl Prober {
    /// A prober that goes on with the findings of an earlier daemon, which are in the results from now on.
    pub(crate) fn new(deps: ProberDeps, chance: StdRng) -> Self {
        stored::restore(&deps.store, &deps.results);
        Self {
            runner: Arc::new(ProbeRunner::new(deps.runtime.clone())),
            schedule: Schedule::new(MAX_RUNNING, Instant::now()),
            taken: HashMap::new(),
            running: FuturesUnordered::new(),
            chance,
            heartbeat: Heartbeat::default(),
            deps,
        }
    }

    /// Answers as this heartbeat.
    pub(crate) fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Runs until cancelled. Runs under way are given up then.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let mut changes = self.deps.status_cache.changes();
        changes.mark_changed();
        loop {
            let due = self.schedule.next_due();
            tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe as documented there.
                () = self.heartbeat.asked() => {}
                // Cancel-safe: a stream gives an item only when `next` returns it.
                Some(ended) = self.running.next() => self.ended(ended),
                // Cancel-safe: a watch marks its value seen only when `changed` returns. The cache, which has the sender, is held here.
                _ = changes.changed() => self.take_in(),
                // Cancel-safe: a sleep.
                () = sleep_until(due) => self.start_due(),
            }
        }
    }

    /// Takes in the statuses that changed.
    fn take_in(&mut self) {
        let entries = self.deps.status_cache.all();
        let mut probed: Vec<&PodStatusEntry> =
            entries.iter().filter(|entry| has_probes(&entry.pod)).collect();
        // So that the same statuses have the same effect in every run: each new instance takes from the randomness.
        probed.sort_by(|a, b| a.pod.reference.uid.cmp(&b.pod.reference.uid));
        let mut present = HashSet::new();
        for entry in probed {
            let uid = &entry.pod.reference.uid;
            present.insert(uid.clone());
            let is_ending = entry.terminating_since.is_some();
            let is_known = self.taken.get(uid).is_some_and(|taken| {
                Arc::ptr_eq(&taken.pod, &entry.pod)
                    && Arc::ptr_eq(&taken.status, &entry.status)
                    && taken.is_ending == is_ending
            });
            if !is_known {
                let taken = Taken { pod: entry.pod.clone(), status: entry.status.clone(), is_ending };
                self.taken.insert(uid.clone(), taken);
                self.see(entry);
            }
        }
        if present.len() < self.taken.len() {
            let gone: Vec<PodUid> =
                self.taken.keys().filter(|uid| !present.contains(*uid)).cloned().collect();
            gone.iter().for_each(|uid| self.forget(uid));
        }
    }

    fn see(&mut self, entry: &PodStatusEntry) {
        let uid = &entry.pod.reference.uid;
        let known = self.deps.results.of(uid);
        let (now, chance) = (now(&self.deps), &mut self.chance);
        self.schedule.see(SeenPod::new(entry), &known, now, || chance.random());
        self.publish(uid, &known);
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(taken) = self.taken.remove(uid) else { return };
        self.schedule.forget(uid);
        self.deps.results.forget(uid);
        self.deps.failing.forget(uid);
        let containers = taken.pod.containers().map(|container| container.spec.name.as_str());
        self.deps.metrics.forget(&taken.pod.reference, containers);
    }

    /// Publishes the findings for a pod if they differ from what is known.
    fn publish(&mut self, uid: &PodUid, known: &PodProbes) {
        let found = self.schedule.found(uid);
        if found == *known {
            return;
        }
        stored::put(&self.deps.store, uid, &found);
        self.deps.results.set(uid, found);
        self.deps.statuses.urgent(uid);
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        while let Some(run) = self.schedule.take_due(now) {
            let runner = self.runner.clone();
            self.running.push(Box::pin(async move {
                let began = Instant::now();
                let attempt = runner.run(&run).await;
                (run, attempt, began.elapsed())
            }));
        }
    }

    fn ended(&mut self, (run, attempt, took): Ended) {
        let verdict = match &attempt {
            Ok(Answer::Success | Answer::Warning(_)) => Some(Verdict::Success),
            Ok(Answer::Failure(_)) => Some(Verdict::Failure),
            Err(_) => None,
        };
        match self.schedule.finished(run.key, verdict, now(&self.deps)) {
            // The container is terminating or removed, which may be why.
            Finish::Moot => {}
            Finish::Counted { begins_to_fail, result } => {
                if let Some(verdict) = verdict {
                    self.deps.metrics.finished(&run, verdict, took);
                }
                self.report(&run, &attempt, begins_to_fail);
                if let Some(result) = result {
                    self.mark(&run, result);
                    let known = self.deps.results.of(&run.pod.reference.uid);
                    self.publish(&run.pod.reference.uid, &known);
                }
            }
        }
    }

    /// Sends the event of an answer, and keeps it for explanations. Only the first of several failures is logged.
    fn report(&self, run: &Run, attempt: &Attempt, begins_to_fail: bool) {
        let (pod, container, kind) = (&run.pod.reference, run.container.name.as_str(), run.kind.as_str());
        let (reason, message, answer) = match attempt {
            Ok(Answer::Success) => {
                self.deps.failing.succeeded(&pod.uid, container, run.kind);
                return;
            }
            Ok(Answer::Warning(text)) => {
                self.deps.failing.succeeded(&pod.uid, container, run.kind);
                ("ProbeWarning", format!("{kind} probe warning: {text}"), None)
            }
            Ok(Answer::Failure(text)) => {
                ("Unhealthy", format!("{kind} probe failed: {text}"), Some(text.clone()))
            }
            Err(error) => {
                let state = error.state();
                let message = format!("{kind} probe errored and resulted in {state} state: {error}");
                ("Unhealthy", message, Some(error.to_string()))
            }
        };
        let now = self.deps.clock.now();
        let event = PodEvent::warning(reason, message);
        if !run.is_early {
            (self.deps.events)(pod, Some(&run.container), &event);
        }
        let uid = &pod.uid;
        if begins_to_fail {
            self.deps.timeline.event(pod, Some(container), &event, now);
            tracing::warn!(%pod, %uid, container, reason, "{}", event.message);
        } else {
            tracing::debug!(%pod, %uid, container, reason, "{}", event.message);
        }
        if let Some(answer) = answer {
            let (container, id) = (container.to_owned(), run.id.clone());
            let failing = FailingProbe { container, id, kind: run.kind, answer, since: now };
            self.deps.failing.failed(uid, failing);
        }
    }

    /// Adds a result to the pod's timeline.
    fn mark(&self, run: &Run, result: Verdict) {
        let what = match (run.kind, result) {
            (ProbeKind::Startup, Verdict::Success) => "has started",
            (ProbeKind::Startup, Verdict::Failure) => "failed its startup probe",
            (ProbeKind::Liveness, Verdict::Failure) => "failed its liveness probe",
            (ProbeKind::Readiness, Verdict::Success) => "is ready",
            (ProbeKind::Readiness, Verdict::Failure) => "is not ready",
            // It is alive as long as nothing says otherwise.
            (ProbeKind::Liveness, Verdict::Success) => return,
        };
        let (pod, container) = (&run.pod.reference, &run.container.name);
        let now = self.deps.clock.now();
        self.deps.timeline.mark(pod, TimelineStep::Probed, format!("{container} {what}"), now);
        tracing::info!(%pod, uid = %pod.uid, container, "container {what}");
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
