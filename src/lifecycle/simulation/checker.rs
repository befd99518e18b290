//! What must hold at every moment, judged from what was asked of the runtime, what became of containers and what is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::super::testing::{Node, STARTS};
use super::model::Instance;
use super::trace::{Line, Trace};
use crate::admission::AdoptedPod;
use crate::cri::Operation;
use crate::cri::fake::{Call, Happened, What};
use crate::pod::pod_uid;
use crate::status::PodStatusEntry;
use crate::types::PodRef;

/// For how long a start counts as one of those the gate bounds.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is known of one pod.
#[derive(Default)]
struct Known {
    full_name: String,
    /// The daemon that was last told to run it, and when first.
    daemon: Option<(usize, Instant)>,
    /// Since when nobody wants it.
    unwanted: Option<Instant>,
    /// When something else than the daemon last put a hand to it.
    disturbed: Option<Instant>,
    /// What is told of it may go back: something of it went without a trace, or it began anew.
    is_excused: bool,
    sandboxes_asked_for: usize,
    containers: BTreeMap<String, Instance>,
    told: Option<Status>,
}

/// What was last told of a pod.
struct Status {
    daemon: usize,
    end: Option<String>,
    start: Option<Timestamp>,
    restarts: BTreeMap<String, i32>,
}

pub(super) struct Checker {
    bound: usize,
    /// Counts daemons.
    daemon: usize,
    /// The pods that the present one knew from the start.
    adopted: BTreeSet<String>,
    calls: usize,
    history: usize,
    /// Starts that were not answered when last looked at.
    open: Vec<usize>,
    pods: BTreeMap<String, Known>,
}

impl Checker {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            daemon: 0,
            adopted: BTreeSet::new(),
            calls: 0,
            history: 0,
            open: Vec::new(),
            pods: BTreeMap::new(),
        }
    }

    /// A new daemon runs that knows of these pods of the one before.
    pub(super) fn booted(&mut self, adopted: &[AdoptedPod]) {
        self.daemon += 1;
        self.adopted = adopted.iter().map(|pod| pod_uid(&pod.pod).to_string()).collect();
    }

    /// The daemon is told to run a pod.
    pub(super) fn wanted(&mut self, pod: &PodRef) {
        let known = self.pods.entry(pod.uid.to_string()).or_default();
        known.full_name = pod.full_name();
        if known.daemon.is_none_or(|(daemon, _)| daemon != self.daemon) {
            known.daemon = Some((self.daemon, Instant::now()));
        }
        if known.unwanted.take().is_some() {
            // A life of its own, unless the daemon never knew that the one before had ended.
            known.containers.retain(|_, instance| instance.ended.is_none());
            known.containers.values_mut().for_each(Instance::bury);
            known.is_excused = true;
            known.disturbed = Some(Instant::now());
        }
    }

    /// Nobody is to run a pod any more.
    pub(super) fn unwanted(&mut self, uid: &str) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.unwanted = Some(Instant::now());
        }
    }

    /// Something else than the daemon put a hand to a pod.
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

    /// Something of a pod is gone without a trace: what was counted may be counted anew.
    pub(super) fn robbed(&mut self, uid: &str) {
        self.disturb(uid);
        if let Some(known) = self.pods.get_mut(uid) {
            known.containers.retain(|_, instance| instance.ended.is_none());
            known.is_excused = true;
        }
    }

    /// Looks at all that happened since the last look.
    pub(super) fn look(&mut self, node: &Node, trace: &mut Trace) -> Result<(), String> {
        let first = self.open.first().copied().unwrap_or(self.calls).min(self.calls);
        let (calls, total) = node.runtime.calls_after(first);
        let mut history = node.runtime.history_after(self.history);
        self.history += history.len();
        // In reverse, to be taken from the end.
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
        node.told().iter().try_for_each(|told| self.told(told))
    }

    fn gate<'c>(&self, call: &Call, get: impl Fn(usize) -> Option<&'c Call>) -> Result<(), String> {
        let under_way = |other: &&Call| {
            other.ended_at.is_none_or(|ended| ended > call.at) && call.at - other.at < PATIENCE
        };
        let count = self.open.iter().filter_map(|at| get(*at)).filter(under_way).count();
        // A call that was answered at once is no longer under way, nor counted.
        (count <= self.bound).then_some(()).ok_or_else(|| format!("{count} starts at once: {call:?}"))
    }

    fn called(&mut self, call: &Call) -> Result<(), String> {
        let Some(uid) = call.pod.as_ref().map(|uid| uid.as_str()) else { return Ok(()) };
        let Some(known) = self.pods.get_mut(uid) else { return Ok(()) };
        if STARTS.contains(&call.operation) {
            if known.unwanted.is_some_and(|end| call.at > end) {
                return Err(format!("{uid}: {} after its end", call.operation));
            }
            known.sandboxes_asked_for += usize::from(call.operation == Operation::RunSandbox);
            return self.predecessor(uid, call);
        }
        let instance = known.containers.values_mut().find(|i| i.id.as_str() == call.target);
        if let (Operation::StopContainer, Some(instance)) = (call.operation, instance) {
            let is_healthy = instance.ran_at(call.at)
                && known.unwanted.is_none()
                && known.sandboxes_asked_for == 1
                && known.disturbed.is_none_or(|at| at < instance.started);
            if is_healthy && !instance.was_stopped {
                return Err(format!("{uid}: stops {} for no reason", instance.id));
            }
            instance.was_stopped = true;
        }
        if let Operation::StopSandbox | Operation::RemoveSandbox | Operation::RemoveContainer = call.operation
        {
            // They end what runs in it. That they do so for no reason shows by what is missing after the calm.
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

    /// A static pod starts after the one before it of its name ended, if the daemon can know of that one: it was told of it,
    /// or found it in its store.
    fn predecessor(&self, uid: &str, call: &Call) -> Result<(), String> {
        let Some(known) = self.pods.get(uid) else { return Ok(()) };
        let others = self.pods.iter().filter(|(other, k)| *other != uid && k.full_name == known.full_name);
        // Told and taken back at one moment, it was never known.
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

    /// What is told never goes back while one daemon tells it.
    fn told(&mut self, told: &PodStatusEntry) -> Result<(), String> {
        let uid = pod_uid(&told.pod);
        let Some(known) = self.pods.get_mut(uid.as_str()) else { return Ok(()) };
        if known.unwanted.is_some() {
            return Ok(());
        }
        let phase = told.status.phase.clone();
        let restarts = told.status.container_statuses.iter().flatten();
        let now = Status {
            daemon: self.daemon,
            end: phase.filter(|phase| matches!(phase.as_str(), "Succeeded" | "Failed")),
            start: told.status.start_time.as_ref().map(|time| time.0),
            restarts: restarts.map(|c| (c.name.clone(), c.restart_count)).collect(),
        };
        let before = known.told.as_ref().filter(|_| !known.is_excused);
        if let Some(before) = before.filter(|before| before.daemon == now.daemon) {
            if before.end.is_some() && before.end != now.end {
                return Err(format!("{uid}: was {:?}, is {:?}", before.end, told.status.phase));
            }
            if before.start.is_some() && before.start != now.start {
                return Err(format!("{uid}: started at {:?}, now {:?}", before.start, now.start));
            }
        }
        let before = known.told.as_ref().filter(|before| !known.is_excused && before.daemon == now.daemon);
        for (name, count) in before.iter().flat_map(|before| &before.restarts) {
            if now.restarts.get(name).is_some_and(|now| now < count) {
                return Err(format!("{uid}: {name} had {count} restarts, now {:?}", now.restarts));
            }
        }
        known.told = Some(now);
        Ok(())
    }
}
