//! Looks at the node's resources, publishes its pressures, and relieves it: first by what nobody uses, then by one pod at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use hostlet_base::node::{NodeEvent, NodeEvents, NodePressure, Pressure, Signal};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold};
use hostlet_base::{PodUid, error_chain};
use hostlet_host::StallKind;
use hostlet_observe::stats::{DiskLayout, SignalReport};
use hostlet_pod::{AdmittedPod, is_critical};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::alarms::MemoryNotice;
use super::evictor::{EvictionReason, Evictor, IMMEDIATE_SECONDS};
use super::holders::holders;
use super::message::{Explanation, cause_of, explain};
use super::pressure::{PressureTracker, Verdict};
use super::rank::{Candidate, Measure, Starved, frees, rank};
use super::reclaim::{Reclaimer, Reclaims, reclaimed_for};
use super::thresholds::{Reclaim, is_crossed, shortage};
use super::usage::{NodeObserver, PodsConsumption};

/// Pause between two looks (upstream's `evictionMonitoringPeriod`).
const INTERVAL: Duration = Duration::from_secs(10);

/// Shortest pause between two looks, whatever the kernel says.
const SHORTEST: Duration = Duration::from_secs(1);

/// Label of evictions because tasks waited for memory.
const STALLED: &str = "memory.stalled";

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Nothing, or nothing more than freeing what nobody uses.
    Idle,
    /// Pods are being evicted.
    Evicting,
}

/// What the loop observes, frees and reports.
pub(super) struct ReliefDeps {
    /// Observes the node.
    pub(super) observer: Arc<dyn NodeObserver>,
    /// Free what nobody uses.
    pub(super) reclaimers: Vec<Box<dyn Reclaimer>>,
    /// Receives the node's pressures.
    pub(super) pressure: watch::Sender<NodePressure>,
    /// Receives the events of the node.
    pub(super) node_events: NodeEvents,
}

/// Why a pod is evicted, and how fast.
struct Cause<'a> {
    /// Label of the metric.
    signal: &'static str,
    /// What the node is short of, as messages name it.
    resource: &'static str,
    /// What was seen, a sentence for the message.
    seen: &'a str,
    grace_seconds: i64,
}

/// What came of freeing what nobody uses.
#[derive(Default)]
struct Reclaimed {
    /// Whether there was anything that could free something.
    is_tried: bool,
    /// What stays, and why.
    stays: Vec<String>,
}

/// The loop.
pub(super) struct Relief {
    settings: EvictionSettings,
    evictor: Evictor,
    deps: ReliefDeps,
    /// The evicted pods that were waited for.
    awaited: BTreeSet<PodUid>,
    reported: Reported,
}

/// What was reported, so that it is not again as long as it lasts.
#[derive(Default)]
struct Reported {
    unreadable: BTreeSet<Signal>,
    /// The signals for which no pod can be evicted.
    stuck: BTreeSet<Signal>,
    /// Whether tasks wait for memory, and no pod can be evicted for it.
    is_stall_stuck: bool,
    /// The critical pods that would have been evicted.
    spared: BTreeSet<PodUid>,
}

impl Relief {
    /// Looks at nothing before it runs.
    pub(super) fn new(settings: EvictionSettings, evictor: Evictor, deps: ReliefDeps) -> Self {
        Self { settings, evictor, deps, awaited: BTreeSet::new(), reported: Reported::default() }
    }

    /// Runs until cancelled.
    pub(super) async fn run(mut self, cancel: &CancellationToken) {
        cancel.run_until_cancelled(self.work()).await;
    }

    async fn work(&mut self) {
        let mut tracker = PressureTracker::new(self.settings.clone(), Instant::now());
        let mut stalled = None;
        loop {
            let began = Instant::now();
            match self.pass(&mut tracker, stalled.take()).await {
                Pass::Idle => stalled = self.rest(began).await,
                Pass::Evicting => {
                    self.evictor.cleaned_up().await;
                    self.awaited = self.evictor.ending();
                    // What the kernel said meanwhile may be over.
                    while self.deps.observer.noticed().now_or_never().is_some() {}
                }
            }
        }
    }

    /// Waits until it is time for the next look, or until the kernel says that there is something to see. Returns which tasks were
    /// stalled for too long.
    async fn rest(&self, began: Instant) -> Option<StallKind> {
        let notice = tokio::select! {
            // Cancel-safe: only waits.
            () = sleep_until(began + INTERVAL) => return None,
            // Cancel-safe, as it says.
            notice = self.deps.observer.noticed() => notice,
        };
        tracing::debug!(?notice, "the kernel reports use of memory");
        sleep_until(began + SHORTEST).await;
        match notice {
            MemoryNotice::Crossed => None,
            MemoryNotice::Stalled(kind) => Some(kind),
        }
    }

    async fn pass(&mut self, tracker: &mut PressureTracker, stalled: Option<StallKind>) -> Pass {
        if stalled.is_some() {
            tracker.stalled(Instant::now());
        }
        let report = self.deps.observer.look().await;
        let verdict = tracker.look(&report, Instant::now());
        self.publish(&report, &verdict);
        self.reported.stuck.retain(|signal| verdict.due.iter().any(|threshold| threshold.signal == *signal));
        let pressures = verdict.pressure.active();
        if pressures.is_empty() {
            self.reported.spared.clear();
        }
        self.reported.is_stall_stuck &= pressures.contains(&Pressure::Memory);
        if verdict.due.is_empty() && stalled.is_none() {
            return Pass::Idle;
        }
        // Such as those beyond a limit of their own: what they release may be enough.
        if !self.evictor.ending().is_subset(&self.awaited) {
            return Pass::Evicting;
        }
        // Memory and processes do not depend on disks.
        let layout = tracker.layout().unwrap_or(DiskLayout::One);
        let mut tried = Vec::new();
        for threshold in &verdict.due {
            // Such as the soft threshold after the hard one, and that of images on the only disk.
            let measure = Measure::of(threshold.signal, layout);
            if tried.contains(&measure) {
                continue;
            }
            tried.push(measure);
            match self.relieve(threshold, &verdict.due, layout, &report).await {
                Pass::Idle => {}
                Pass::Evicting => return Pass::Evicting,
            }
        }
        match stalled {
            Some(kind) if !tried.contains(&Measure::Memory) => self.relieve_stall(kind, &report).await,
            Some(_) | None => Pass::Idle,
        }
    }

    /// Evicts the pod that ranks first under memory pressure, although enough is available. Not one that uses next to nothing: others
    /// are the cause then, such as a process outside of pods.
    async fn relieve_stall(&mut self, kind: StallKind, report: &SignalReport) -> Pass {
        let (which, limit) = match kind {
            StallKind::Some => ("Some", self.settings.stalls.some),
            StallKind::Full => ("All", self.settings.stalls.full),
        };
        let limit = limit.unwrap_or_default();
        let cause =
            format!("{which} tasks of the node waited for memory for more than {limit}% of the time. ");
        let is_stuck = self.reported.is_stall_stuck;
        if !is_stuck {
            tracing::warn!(limit, "{}", cause.trim_end());
        }
        let signal = Signal::MemoryAvailable;
        let consumption = match self.deps.observer.pods(signal).await {
            Ok(consumption) => consumption,
            Err(error) => {
                tracing::warn!(error = error_chain(&*error), "no pod is evicted: pods cannot be measured");
                return Pass::Idle;
            }
        };
        // Nobody knows how much is missing: a pod counts by its part of the whole.
        let seen = report.observed.get(&signal);
        let whole = seen.and_then(|seen| u64::try_from(seen.capacity.value()).ok()).unwrap_or_default();
        let starved = Starved::new(signal, DiskLayout::One, whole, false);
        let Some(pod) = self.choose(starved, &consumption, true) else {
            self.reported.is_stall_stuck = true;
            if !is_stuck {
                let desired = self.evictor.desired_pods.borrow().clone();
                self.report_stuck(signal, &holders(signal, seen, starved, &consumption, &desired, &[]));
            }
            return Pass::Idle;
        };
        let cause = Cause {
            signal: STALLED,
            resource: Signal::MemoryAvailable.starved_resource(),
            seen: &cause,
            grace_seconds: IMMEDIATE_SECONDS,
        };
        self.evict(&pod, &consumption, &cause);
        Pass::Evicting
    }

    fn evict(&self, pod: &AdmittedPod, consumption: &PodsConsumption, cause: &Cause<'_>) {
        let own = consumption.get(&pod.reference.uid).cloned().unwrap_or_default();
        let Explanation { message, annotations } = explain(cause.resource, cause.seen, pod, &own);
        let (signal, grace_seconds) = (cause.signal, cause.grace_seconds);
        let why = EvictionReason { signal, message, annotations, grace_seconds, is_of_node: true };
        self.evictor.evict(pod, &why);
    }

    fn publish(&mut self, report: &SignalReport, verdict: &Verdict) {
        self.deps.pressure.send_if_modified(|known| {
            let is_changed = known.states != verdict.pressure.states;
            if is_changed {
                let states = verdict.pressure.states.iter();
                let states: Vec<String> =
                    states.map(|(pressure, state)| format!("{} {state}", pressure.condition())).collect();
                tracing::info!(conditions = states.join(", "), "the node's pressures changed");
            }
            *known = verdict.pressure.clone();
            is_changed
        });
        let read = report.observed.keys().map(|signal| (*signal, true));
        let unread = report.unreadable.keys().map(|signal| (*signal, false));
        self.evictor.metrics.looked(read.chain(unread));
        for (signal, why) in &verdict.unreadable {
            if self.reported.unreadable.insert(*signal) {
                tracing::warn!(signal = signal.name(), why, "an eviction signal cannot be read");
                (self.deps.node_events)(NodeEvent::warning("EvictionSignalUnreadable", why.clone()));
            }
        }
        self.reported.unreadable.retain(|signal| verdict.unreadable.contains_key(signal));
    }

    /// Frees what nobody uses, and evicts a pod if that is not enough. Another signal is relieved next if no pod can be evicted for
    /// this one, or if enough was freed.
    async fn relieve(
        &mut self,
        threshold: &EvictionThreshold,
        due: &[EvictionThreshold],
        layout: DiskLayout,
        seen: &SignalReport,
    ) -> Pass {
        let signal = threshold.signal;
        let resource = signal.starved_resource();
        if !self.reported.stuck.contains(&signal) {
            tracing::warn!(
                signal = signal.name(),
                resource,
                "an eviction threshold is crossed; attempting to reclaim"
            );
            let attempting = format!("Attempting to reclaim {resource}");
            (self.deps.node_events)(NodeEvent::warning("EvictionThresholdMet", attempting));
        }
        let reclaimed = self.reclaim(signal, layout).await;
        let report = if reclaimed.is_tried { self.deps.observer.look().await } else { seen.clone() };
        if reclaimed.is_tried {
            if !report.observed.contains_key(&signal) {
                return Pass::Idle;
            }
            if !is_crossed(threshold, &report.observed, Reclaim::Required) {
                tracing::info!(signal = signal.name(), "enough was freed without evicting pods");
                return Pass::Idle;
            }
        }
        let missing = shortage(threshold, &report.observed, Reclaim::Required).unwrap_or_default();
        let consumption = match self.deps.observer.pods(signal).await {
            Ok(consumption) => consumption,
            Err(error) => {
                let error = error_chain(&*error);
                tracing::warn!(signal = signal.name(), error, "no pod is evicted: pods cannot be measured");
                return Pass::Idle;
            }
        };
        let removes_images = self.deps.reclaimers.iter().any(|it| it.reclaims() == Reclaims::Images);
        let starved = Starved::new(signal, layout, missing, removes_images);
        let Some(pod) = self.choose(starved, &consumption, threshold.is_hard()) else {
            // What an evicted pod still has may be enough.
            if self.evictor.ending().is_empty() && self.reported.stuck.insert(signal) {
                let desired = self.evictor.desired_pods.borrow().clone();
                let seen = report.observed.get(&signal);
                let who = holders(signal, seen, starved, &consumption, &desired, &reclaimed.stays);
                self.report_stuck(signal, &who);
            }
            return Pass::Idle;
        };
        let now = self.evictor.clock.now();
        for due in due {
            if let Some(observed) = report.observed.get(&due.signal) {
                self.evictor.metrics.decided(due.signal, observed.at, now);
            }
        }
        let seen = cause_of(resource, due, &report.observed);
        self.reported.stuck.remove(&signal);
        let grace_seconds = self.grace_seconds(threshold, &pod);
        self.evict(
            &pod,
            &consumption,
            &Cause { signal: signal.name(), resource, seen: &seen, grace_seconds },
        );
        Pass::Evicting
    }

    async fn reclaim(&self, signal: Signal, layout: DiskLayout) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        for kind in reclaimed_for(signal, layout) {
            for reclaimer in self.deps.reclaimers.iter().filter(|reclaimer| reclaimer.reclaims() == *kind) {
                reclaimed.is_tried = true;
                match reclaimer.reclaim().await {
                    Ok(stays) => reclaimed.stays.extend(stays),
                    Err(error) => {
                        let error = error_chain(&error);
                        tracing::warn!(signal = signal.name(), error, "what nobody uses was not freed");
                    }
                }
            }
        }
        reclaimed
    }

    /// The pod that is evicted next; `None` if the end of none would free anything. With a hard threshold it may be one that is being
    /// evicted more slowly.
    fn choose(
        &mut self,
        starved: Starved,
        consumption: &PodsConsumption,
        is_hard: bool,
    ) -> Option<Arc<AdmittedPod>> {
        let desired = self.evictor.desired_pods.borrow().clone();
        let alive = desired.pods.iter().filter(|pod| {
            let uid = &pod.reference.uid;
            let is_killed = desired.kills.contains_key(uid) || !self.evictor.may_evict(uid);
            let is_slow = is_hard && self.evictor.may_hasten(uid, IMMEDIATE_SECONDS);
            !pod.has_ended() && (!is_killed || is_slow)
        });
        // Upstream evicts pods first of which it has no statistics. A pod of which nothing runs uses nothing but its
        // volumes.
        let candidates = alive.filter_map(|pod| {
            Some(Candidate { pod: pod.clone(), consumption: consumption.get(&pod.reference.uid)? })
        });
        let ranked = rank(candidates.collect(), starved);
        for candidate in ranked.into_iter().filter(|candidate| frees(candidate, consumption, starved)) {
            let pod = &candidate.pod;
            if !is_critical(pod) {
                return Some(candidate.pod);
            }
            if self.reported.spared.insert(pod.reference.uid.clone()) {
                let pod = &pod.reference;
                tracing::warn!(%pod, uid = %pod.uid, "a pod is not evicted because it is critical");
            }
        }
        None
    }

    fn grace_seconds(&self, threshold: &EvictionThreshold, pod: &AdmittedPod) -> i64 {
        let longest = self.settings.max_pod_grace_seconds;
        match threshold.is_hard() {
            true => IMMEDIATE_SECONDS,
            false => pod.grace_seconds.map_or(longest, |own| own.min(longest)),
        }
    }

    /// Says that no pod can be evicted, and who uses the resource.
    fn report_stuck(&self, signal: Signal, who: &str) {
        let resource = signal.starved_resource();
        let message = format!("No pod is evicted: the end of none would free enough {resource}. {who}");
        tracing::warn!(signal = signal.name(), "{message}");
        (self.deps.node_events)(NodeEvent::warning("NoPodToEvict", message));
    }
}
