//! The only writer of statuses. Each change of an input is sent as an update (see [`StatusHandle`]), and that pod's status
//! is recomputed: a worker that waits for an image, a hook or a long stop delays no status. Reads termination messages,
//! each pod's separately, so that a slow disk delays only that pod. Decides nothing about pods.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use hostlet_base::node::NodeAddresses;
use hostlet_base::{ContainerId, PodRef, PodUid, WallClock, reasons, sleep_until};
use hostlet_host::file_work;
use hostlet_pod::ProbeResults;
use hostlet_runtime::cri::ContainerStatus;
use hostlet_telemetry::{Heartbeat, Metrics};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handle::{StatusUpdate, Unread};
use super::pod_state::{NodeInputs, PodState};
use super::starts::StartTimes;
use super::terminations::TerminationMetrics;
use super::timeline::{Timeline, TimelineStep};
use super::{StatusCache, StatusGates, StatusHandle};
use crate::log::termination_message;
use crate::pleg::Cache;

/// How long a change in the runtime waits for the facts of the pod's worker. The worker is usually idle and publishes them
/// within a millisecond, so that one status covers both.
const HOLD: Duration = Duration::from_millis(50);

/// What statuses are computed from, besides the facts of each pod.
pub struct PodStatusDeps {
    /// Receives updates.
    pub handle: StatusHandle,
    /// The PLEG cache.
    pub observed: Cache,
    /// What the probes of containers have found.
    pub probes: ProbeResults,
    /// Addresses of the node, for `hostIPs` and pods on the host's network.
    pub addresses: NodeAddresses,
    /// Name of the runtime, the scheme of container IDs.
    pub runtime_name: String,
    /// Where the ends of containers are recorded.
    pub timeline: Timeline,
    /// What statuses show only with a feature gate.
    pub gates: StatusGates,
    /// The time of day.
    pub clock: WallClock,
}

/// Termination messages of a pod's containers.
type Messages = Vec<(ContainerId, String)>;

/// A pod and the work under way for its status.
#[derive(Default)]
struct Entry {
    state: PodState,
    /// When its status is due, if a change may wait that long.
    due: Option<Instant>,
    /// Termination messages are being read. Changes meanwhile are part of the status that follows.
    is_reading: bool,
    /// Dropped when its status is up to date.
    waiting: Vec<oneshot::Sender<()>>,
}

/// Computes and writes all statuses, to be run by the app.
pub struct PodStatusTask {
    deps: PodStatusDeps,
    status_cache: StatusCache,
    pods: HashMap<PodUid, Entry>,
    /// Pods whose status is due, in order. One that was recomputed meanwhile is skipped.
    due: VecDeque<(Instant, PodUid)>,
    reads: FuturesUnordered<BoxFuture<'static, (PodUid, Messages)>>,
    heartbeat: Heartbeat,
    terminations: TerminationMetrics,
    starts: StartTimes,
}

impl PodStatusTask {
    /// The only writer of the statuses in `status_cache`.
    pub fn new(deps: PodStatusDeps, status_cache: StatusCache) -> Self {
        Self {
            deps,
            status_cache,
            pods: HashMap::new(),
            due: VecDeque::new(),
            reads: FuturesUnordered::new(),
            heartbeat: Heartbeat::default(),
            terminations: TerminationMetrics::default(),
            starts: StartTimes::default(),
        }
    }

    /// Adds its metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.terminations.register(metrics);
        self.starts.register(metrics);
        self.deps.timeline.register(metrics);
    }

    /// Answers as this heartbeat.
    pub fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let handle = self.deps.handle.clone();
        loop {
            let due = self.due.front().map(|(due, _)| *due);
            tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe as documented there.
                () = self.heartbeat.asked() => {}
                // Cancel-safe: a stream gives an item only when `next` returns it.
                Some((pod, messages)) = self.reads.next() => self.read(&pod, messages),
                // Cancel-safe: updates are taken only when they are returned.
                (pod, unread) = handle.next() => self.take_in(&pod, unread),
                // Cancel-safe: a sleep.
                () = sleep_until(due) => self.compute_due(),
            }
        }
    }

    fn take_in(&mut self, uid: &PodUid, unread: Unread) {
        let mut is_urgent = unread.is_urgent || !unread.waiting.is_empty();
        for update in unread.updates {
            match update {
                StatusUpdate::Desired(pod) => {
                    let entry = self.pods.entry(uid.clone()).or_default();
                    entry.state.set_pod(pod);
                    self.schedule(uid);
                }
                StatusUpdate::Observed => self.schedule(uid),
                StatusUpdate::Facts(facts) => {
                    let entry = self.pods.entry(uid.clone()).or_default();
                    entry.state.set_facts(*facts);
                    self.schedule(uid);
                }
                StatusUpdate::Ended => {
                    self.compute(uid);
                    self.pods.remove(uid);
                    is_urgent = false;
                }
            }
        }
        // For an unknown pod there is nothing to wait for: the senders are dropped.
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.waiting.extend(unread.waiting);
        }
        if is_urgent {
            self.compute(uid);
        }
    }

    /// Schedules the status of a pod, unless it is due earlier.
    fn schedule(&mut self, uid: &PodUid) {
        let Some(entry) = self.pods.get_mut(uid).filter(|entry| entry.due.is_none()) else { return };
        let due = Instant::now() + HOLD;
        entry.due = Some(due);
        self.due.push_back((due, uid.clone()));
    }

    fn compute_due(&mut self) {
        let now = Instant::now();
        while let Some((due, uid)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if self.pods.get(&uid).is_some_and(|entry| entry.due == Some(due)) {
                self.compute(&uid);
            }
        }
    }

    /// Recomputes a pod's status, after reading the termination messages of its containers.
    fn compute(&mut self, uid: &PodUid) {
        let Some(entry) = self.pods.get_mut(uid).filter(|entry| !entry.is_reading) else { return };
        entry.due = None;
        let Some(observed) = entry.state.observed(&self.deps.observed) else {
            // While it cannot be inspected, termination messages may be unread: whoever waits removes their containers. An
            // inspection that succeeds again is no change, so nobody reports it.
            match entry.state.is_known() {
                true if !entry.waiting.is_empty() => self.schedule(uid),
                true => {}
                false => entry.waiting.clear(),
            }
            return;
        };
        let unread = entry.state.unread(&observed);
        if !unread.is_empty() {
            entry.is_reading = true;
            self.start_reading(uid, &observed.pod, unread);
            return;
        }
        let host_ips = self.deps.addresses.now();
        let node = NodeInputs {
            now: self.deps.clock.now(),
            runtime_name: &self.deps.runtime_name,
            probes: &self.deps.probes,
            host_ips: &host_ips,
            gates: self.deps.gates,
        };
        if let Some(report) = entry.state.report(&observed, &node) {
            let (pod, now) = (report.pod.clone(), report.status.clone());
            // An earlier daemon may have seen it terminate.
            let before = match self.status_cache.put(report) {
                Some(before) => before.status,
                None => Arc::new(pod.status.clone().unwrap_or_default()),
            };
            self.terminations.count(&before, &now);
            self.starts.observe(&pod, &before, &now, node.now);
        }
        entry.waiting.clear();
    }

    fn start_reading(&self, uid: &PodUid, pod: &PodRef, ended: Vec<ContainerStatus>) {
        for container in &ended {
            self.record_termination(pod, container);
        }
        let uid = uid.clone();
        self.reads.push(Box::pin(async move {
            let ids: Vec<ContainerId> = ended.iter().map(|container| container.id.clone()).collect();
            let read = file_work(move || ended.iter().map(termination_message).collect::<Vec<_>>()).await;
            let mut messages = read.unwrap_or_default().into_iter();
            (uid, ids.into_iter().map(|id| (id, messages.next().unwrap_or_default())).collect())
        }));
    }

    fn read(&mut self, uid: &PodUid, messages: Messages) {
        // A pod that was deleted and created again meanwhile has containers with other IDs.
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.is_reading = false;
        entry.state.termination_messages.extend(messages);
        self.compute(uid);
    }

    /// Records that a container terminated.
    fn record_termination(&self, pod: &PodRef, ended: &ContainerStatus) {
        let reason = match ended.reason.as_str() {
            "" | reasons::ERROR | reasons::COMPLETED => String::new(),
            reason => format!(", {reason}"),
        };
        let detail = format!("{}: exit code {}{reason}", ended.name, ended.exit_code);
        self.deps.timeline.mark(pod, TimelineStep::Ended, detail, self.deps.clock.now());
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
