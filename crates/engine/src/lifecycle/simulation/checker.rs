//! Invariants at every step, checked with the calls, the container history and the reported statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_observe::status::PodStatusEntry;
use hostlet_pod::{AdmittedPod, ContainerKind, has_ended, pod_uid};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Happened, RecordedCall, What};
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::testing::{Node, PLACES, STARTS};
use super::model::Instance;
use super::source::WITH_LIVENESS;
use super::trace::{Line, Trace};
use crate::admission::AdoptedPod;

/// How long a start counts at the gate.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long before its start an instance is counted as restarted, at most.
const SLOW_START: Duration = Duration::from_secs(180);

/// State of one pod.
#[derive(Default)]
struct Known {
    full_name: String,
    /// The last daemon that got it, and when it first did.
    daemon: Option<(usize, Instant)>,
    /// When it was removed.
    unwanted: Option<Instant>,
    /// When something other than the daemon last changed it.
    disturbed: Option<Instant>,
    /// Its status may go back, because something of it vanished or it was restarted.
    is_excused: bool,
    sandboxes_requested: usize,
    /// Names of its init containers, and of its sidecars.
    inits: Vec<String>,
    sidecars: Vec<String>,
    containers: BTreeMap<String, Instance>,
    reported: Option<Status>,
    /// Its status was once that of a pod that has ended.
    was_over: bool,
}

/// The last reported status of a pod.
struct Status {
    daemon: usize,
    end: Option<String>,
    start: Option<Timestamp>,
    restarts: BTreeMap<String, i32>,
}

impl Known {
    /// Whether every main container that was started has terminated.
    fn has_ended(&self) -> bool {
        let is_main = |name: &String| !self.inits.contains(name) && !self.sidecars.contains(name);
        self.containers.iter().filter(|(name, _)| is_main(name)).all(|(_, instance)| instance.ended.is_some())
    }

    /// What ran belongs to an earlier lifecycle.
    fn begin_again(&mut self) {
        self.containers.retain(|_, instance| instance.ended.is_none());
        self.containers.values_mut().for_each(Instance::bury);
        self.is_excused = true;
        self.disturbed = Some(Instant::now());
    }

    /// Main containers start after all init containers have terminated in their sandbox, and none of these runs together with
    /// them.
    fn check_order(&self, started: &Happened) -> Result<(), String> {
        if self.is_excused || self.sidecars.contains(&started.name) {
            return Ok(());
        }
        let early = |what: &str| Err(format!("{}: {} starts {what}", started.pod, started.name));
        if self.inits.contains(&started.name) {
            let is_main = |name: &String| !self.inits.contains(name) && !self.sidecars.contains(name);
            let runs = self.containers.iter().find(|(name, i)| is_main(name) && i.ended.is_none());
            return runs.map_or(Ok(()), |(main, _)| early(&format!("while {main} runs")));
        }
        let is_done = |name: &&String| {
            let last = self.containers.get(*name);
            last.is_some_and(|last| last.ended.is_some() && last.sandbox == started.sandbox)
        };
        let open = self.inits.iter().find(|name| !is_done(name));
        open.map_or(Ok(()), |init| early(&format!("before {init} has terminated")))
    }
}

pub(super) struct Checker {
    bound: usize,
    /// Whether liveness probes succeed.
    is_alive: bool,
    /// Number of daemons.
    daemon: usize,
    /// When the clock was last set.
    clock_set: Option<Instant>,
    /// The pods that the current daemon knew from the start.
    adopted: BTreeSet<String>,
    calls: usize,
    history: usize,
    /// Starts in flight at the last check.
    open: Vec<usize>,
    pods: BTreeMap<String, Known>,
}

impl Checker {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            is_alive: true,
            daemon: 0,
            clock_set: None,
            adopted: BTreeSet::new(),
            calls: 0,
            history: 0,
            open: Vec::new(),
            pods: BTreeMap::new(),
        }
    }

    /// The clock was set. Only a daemon that was not there is misled: it finds the times of containers by the old clock.
    pub(super) fn clock_set(&mut self) {
        self.clock_set = Some(Instant::now());
    }

    /// A new daemon runs, which knows these pods, and of crash loops what was stored by then.
    pub(super) fn booted(&mut self, adopted: &[AdoptedPod], stored: Instant) {
        self.daemon += 1;
        let instances = self.pods.values_mut().flat_map(|known| known.containers.values_mut());
        let is_misled = |started: Instant| self.clock_set.is_some_and(|set| started < set + SLOW_START);
        let forgotten =
            instances.filter(|instance| instance.started >= stored || is_misled(instance.started));
        forgotten.for_each(Instance::forget_crashes);
        self.adopted = adopted.iter().map(|pod| pod_uid(&pod.pod).to_string()).collect();
    }

    /// The daemon gets a pod.
    pub(super) fn wanted(&mut self, pod: &AdmittedPod) {
        let known = self.pods.entry(pod.reference.uid.to_string()).or_default();
        known.full_name = pod.reference.full_name();
        let of_kind = |kind| {
            let named = pod.containers().filter(move |container| container.kind == kind);
            named.map(|container| container.spec.name.clone()).collect()
        };
        (known.inits, known.sidecars) = (of_kind(ContainerKind::Init), of_kind(ContainerKind::Sidecar));
        if known.daemon.is_none_or(|(daemon, _)| daemon != self.daemon) {
            known.daemon = Some((self.daemon, Instant::now()));
        }
        if known.unwanted.take().is_some() {
            // A new lifecycle, unless the daemon never knew that the previous one had ended.
            known.begin_again();
            known.was_over = false;
        }
    }

    /// A pod is removed.
    pub(super) fn unwanted(&mut self, uid: &str) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.unwanted = Some(Instant::now());
        }
    }

    /// Something other than the daemon changed a pod.
    pub(super) fn disturb(&mut self, uid: &str) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.disturbed = Some(Instant::now());
            known.containers.values_mut().for_each(Instance::excuse);
        }
    }

    /// The same for all.
    pub(super) fn disturb_all(&mut self) {
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        uids.iter().for_each(|uid| self.disturb(uid));
    }

    /// From now on liveness probes succeed or fail. An instance that failed before may still be stopped for it.
    pub(super) fn set_alive(&mut self, is_alive: bool) {
        self.is_alive = is_alive;
        let containers = self.pods.values_mut().flat_map(|known| &mut known.containers);
        containers.filter(|(name, _)| *name == WITH_LIVENESS).for_each(|(_, instance)| instance.excuse());
    }

    /// Something of a pod vanished, so counters may restart.
    pub(super) fn robbed(&mut self, uid: &str) {
        self.disturb(uid);
        if let Some(known) = self.pods.get_mut(uid) {
            known.containers.retain(|_, instance| instance.ended.is_none());
            known.is_excused = true;
        }
    }

    /// Checks everything since the last check.
    pub(super) fn look(&mut self, node: &Node, trace: &mut Trace) -> Result<(), String> {
        // A daemon that was killed may not have stored an admission, and the next one does not know at first which pods have ended,
        // whose place that pod has: it may reject the pod. If the pod gets a place later, that is a new lifecycle.
        for uid in node.rejected() {
            if let Some(known) = self.pods.get_mut(uid.as_str()) {
                known.begin_again();
            }
        }
        let first = self.open.first().copied().unwrap_or(self.calls).min(self.calls);
        let (calls, total) = node.runtime.calls_after(first);
        let mut history = node.runtime.history_after(self.history);
        self.history += history.len();
        // Reversed, to be popped from the end.
        history.reverse();
        for (index, call) in calls.iter().enumerate().skip(self.calls - first) {
            while let Some(happened) = history.pop_if(|happened| happened.at <= call.at) {
                self.happened(happened, trace)?;
            }
            trace.push(call.at, Line::Call(call.clone()));
            if STARTS.contains(&call.operation) {
                self.open.push(first + index);
                self.gate(call, |at| calls.get(at - first))?;
            }
            self.called(call)?;
        }
        while let Some(happened) = history.pop() {
            self.happened(happened, trace)?;
        }
        self.calls = total;
        let now = Instant::now();
        self.open.retain(|at| {
            calls.get(at - first).is_some_and(|call| call.ended_at.is_none() && now - call.at < PATIENCE)
        });
        node.reported().iter().try_for_each(|reported| self.reported(reported))?;
        self.places(node)
    }

    /// A daemon admits no pod beyond the places of the node. One that has ended needs none, and those of an earlier daemon stay.
    fn places(&self, node: &Node) -> Result<(), String> {
        let admitted = node.admitted();
        let needs_place = |pod: &&Arc<AdmittedPod>| {
            self.pods.get(pod.reference.uid.as_str()).is_none_or(|known| !known.was_over)
        };
        let taken: Vec<String> =
            admitted.iter().filter(needs_place).map(|pod| pod.reference.uid.to_string()).collect();
        let is_within = taken.len() <= PLACES || taken.iter().all(|uid| self.adopted.contains(uid));
        is_within.then_some(()).ok_or_else(|| format!("{PLACES} places for {taken:?}"))
    }

    fn gate<'c>(
        &self,
        call: &RecordedCall,
        get: impl Fn(usize) -> Option<&'c RecordedCall>,
    ) -> Result<(), String> {
        let under_way = |other: &&RecordedCall| {
            other.ended_at.is_none_or(|ended| ended > call.at) && call.at - other.at < PATIENCE
        };
        let count = self.open.iter().filter_map(|at| get(*at)).filter(under_way).count();
        // A call that finished at once is not in flight.
        (count <= self.bound).then_some(()).ok_or_else(|| format!("{count} starts at once: {call:?}"))
    }

    fn called(&mut self, call: &RecordedCall) -> Result<(), String> {
        let Some(uid) = call.pod.as_ref().map(|uid| uid.as_str()) else { return Ok(()) };
        let Some(known) = self.pods.get_mut(uid) else { return Ok(()) };
        if STARTS.contains(&call.operation) {
            if known.unwanted.is_some_and(|end| call.at > end) {
                return Err(format!("{uid}: {} after its end", call.operation));
            }
            known.sandboxes_requested += usize::from(call.operation == Operation::RunSandbox);
            return self.predecessor(uid, call);
        }
        let has_ended = known.has_ended();
        let instance = known.containers.iter_mut().find(|(_, i)| i.id.as_str() == call.target);
        if let (Operation::StopContainer, Some((name, instance))) = (call.operation, instance) {
            // Sidecars do not keep a pod alive.
            let is_over = has_ended && known.sidecars.contains(name);
            let is_dead = !self.is_alive && name == WITH_LIVENESS;
            let is_healthy = instance.ran_at(call.at)
                && !is_over
                && !is_dead
                && known.unwanted.is_none()
                && known.sandboxes_requested == 1
                && known.disturbed.is_none_or(|at| at < instance.started);
            if is_healthy && !instance.was_stopped {
                return Err(format!("{uid}: stops {} for no reason", instance.id));
            }
            instance.was_stopped = true;
        }
        if let Operation::StopSandbox | Operation::RemoveSandbox | Operation::RemoveContainer = call.operation
        {
            // They stop its containers. A wrong stop shows up after settling.
            let id = call.target.as_str();
            let hit = |i: &&mut Instance| i.sandbox.as_str() == id || i.id.as_str() == id;
            known
                .containers
                .values_mut()
                .filter(hit)
                .filter(|i| i.ended.is_none())
                .for_each(Instance::excuse);
        }
        Ok(())
    }

    /// A static pod starts after its predecessor of the same name terminated, if the daemon can know that one: from its sources or
    /// its store.
    fn predecessor(&self, uid: &str, call: &RecordedCall) -> Result<(), String> {
        let Some(known) = self.pods.get(uid) else { return Ok(()) };
        let others = self.pods.iter().filter(|(other, k)| *other != uid && k.full_name == known.full_name);
        // Added and removed at the same moment, it was never known.
        let is_known = |other: &String, k: &Known| {
            self.adopted.contains(other)
                || k.daemon.is_some_and(|(daemon, since)| {
                    daemon == self.daemon && k.unwanted.is_none_or(|end| end > since)
                })
        };
        for (other, before) in others.filter(|(other, k)| is_known(other, k)) {
            if let Some(runs) = before.containers.values().find(|i| i.ended.is_none()) {
                return Err(format!("{uid}: {} while {} of {other} runs", call.operation, runs.id));
            }
        }
        Ok(())
    }

    fn happened(&mut self, happened: Happened, trace: &mut Trace) -> Result<(), String> {
        let known = self.pods.entry(happened.pod.to_string()).or_default();
        match happened.what {
            What::Started => {
                known.check_order(&happened)?;
                let before = known.containers.get(&happened.name);
                let next = Instance::begin(before, &happened).map_err(|why| {
                    format!("{} {}#{}: {why}", happened.pod, happened.name, happened.attempt)
                })?;
                known.containers.insert(happened.name.clone(), next);
            }
            What::Ended { .. } | What::Removed => {
                if let Some(instance) =
                    known.containers.get_mut(&happened.name).filter(|i| i.id == happened.id)
                {
                    instance.take(&happened);
                }
            }
        }
        trace.push(happened.at, Line::Happened(happened));
        Ok(())
    }

    /// A reported status never goes back within one daemon.
    fn reported(&mut self, reported: &PodStatusEntry) -> Result<(), String> {
        let uid = pod_uid(&reported.pod);
        let Some(known) = self.pods.get_mut(uid.as_str()) else { return Ok(()) };
        if known.unwanted.is_some() {
            return Ok(());
        }
        let restarts = reported.status.container_statuses.iter().flatten();
        let now = Status {
            daemon: self.daemon,
            end: reported.status.phase.clone().filter(|_| has_ended(&reported.status)),
            start: reported.status.start_time.as_ref().map(|time| time.0),
            restarts: restarts.map(|c| (c.name.clone(), c.restart_count)).collect(),
        };
        let before = known.reported.as_ref().filter(|_| !known.is_excused);
        if let Some(before) = before.filter(|before| before.daemon == now.daemon) {
            if before.end.is_some() && before.end != now.end {
                return Err(format!("{uid}: was {:?}, is {:?}", before.end, reported.status.phase));
            }
            if before.start.is_some() && before.start != now.start {
                return Err(format!("{uid}: started at {:?}, now {:?}", before.start, now.start));
            }
        }
        let before =
            known.reported.as_ref().filter(|before| !known.is_excused && before.daemon == now.daemon);
        for (name, count) in before.iter().flat_map(|before| &before.restarts) {
            if now.restarts.get(name).is_some_and(|now| now < count) {
                return Err(format!("{uid}: {name} had {count} restarts, now {:?}", now.restarts));
            }
        }
        known.was_over |= now.end.is_some();
        known.reported = Some(now);
        Ok(())
    }
}
