//! From observations to the node's pressures, and to the thresholds that drive evictions: one state that is looked at again and again.
//! Pure: `now` is an argument. The order is upstream's (`managerImpl.synchronize`).

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::node::{NodePressure, Pressure, PressureState, PressureStates, Signal, SignalLook};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold};
use hostlet_observe::stats::{DiskLayout, Observation, SignalReport};
use jiff::Timestamp;
use tokio::time::Instant;

use super::thresholds::{Observations, Reclaim, applicable, by_priority, is_crossed, limit};

/// How long a signal that cannot be read counts as it was when it was last read: longer than a restart of the runtime.
const STALE: Duration = Duration::from_secs(60);

/// A threshold that is crossed.
#[derive(Clone, Copy, Debug)]
struct Crossed {
    threshold: EvictionThreshold,
    since: Instant,
    /// Whether it has been crossed for its grace period, so that its minimum has to be reclaimed.
    is_met: bool,
}

/// The result of a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// What to publish.
    pub(super) pressure: NodePressure,
    /// The thresholds that drive evictions, the most urgent first: crossed for their grace periods, by a new observation.
    pub(super) due: Vec<EvictionThreshold>,
    /// Why signals with a threshold have not been readable for too long.
    pub(super) unreadable: BTreeMap<Signal, String>,
}

/// The state between two looks.
#[derive(Debug)]
pub(super) struct PressureTracker {
    settings: EvictionSettings,
    /// The filesystems as last known.
    layout: Option<DiskLayout>,
    /// The thresholds on a node with these.
    thresholds: Vec<EvictionThreshold>,
    crossed: Vec<Crossed>,
    /// When each pressure was last there.
    present_at: BTreeMap<Pressure, Instant>,
    /// When each signal was last read: by the clock of this state, and by that of the observation.
    read_at: BTreeMap<Signal, (Instant, Timestamp)>,
    pressure: NodePressure,
    started: Instant,
}

impl PressureTracker {
    /// Nothing was looked at yet.
    pub(super) fn new(settings: EvictionSettings, now: Instant) -> Self {
        Self {
            thresholds: applicable(&settings.thresholds, None),
            settings,
            layout: None,
            crossed: Vec::new(),
            present_at: BTreeMap::new(),
            read_at: BTreeMap::new(),
            pressure: NodePressure::default(),
            started: now,
        }
    }

    /// The filesystems as last known.
    pub(super) fn layout(&self) -> Option<DiskLayout> {
        self.layout
    }

    /// The kernel said at `now` that memory is short, whatever is available.
    pub(super) fn stalled(&mut self, now: Instant) {
        self.present_at.insert(Pressure::Memory, now);
    }

    /// Takes what was observed at `now`.
    pub(super) fn look(&mut self, report: &SignalReport, now: Instant) -> Verdict {
        if report.layout.is_some() && report.layout != self.layout {
            self.layout = report.layout;
            self.thresholds = applicable(&self.settings.thresholds, self.layout);
        }
        let observed = &report.observed;
        self.crossed = self.now_crossed(observed, now);
        for crossed in self.crossed.iter().filter(|crossed| observed.contains_key(&crossed.threshold.signal))
        {
            self.present_at.insert(crossed.threshold.signal.pressure(), now);
        }
        let due = self.due(observed);
        for (signal, observation) in observed {
            self.read_at.insert(*signal, (now, observation.at));
        }
        let states = Pressure::ALL.map(|pressure| (pressure, self.state(pressure, report, now)));
        self.pressure = NodePressure { states: PressureStates::from(states), looks: self.looks(observed) };
        Verdict { pressure: self.pressure.clone(), due, unreadable: self.unreadable(report, now) }
    }

    /// The crossed thresholds. One that is met stays crossed until its minimum is reclaimed, and one whose signal cannot be read now
    /// stays as it was.
    fn now_crossed(&self, observed: &Observations, now: Instant) -> Vec<Crossed> {
        let known =
            |threshold: &EvictionThreshold| self.crossed.iter().find(|known| known.threshold == *threshold);
        let thresholds = self.thresholds.iter().filter_map(|threshold| {
            let known = known(threshold);
            if !observed.contains_key(&threshold.signal) {
                return known.copied();
            }
            let has_to_reclaim = known.is_some_and(|known| known.is_met);
            let stays = has_to_reclaim && is_crossed(threshold, observed, Reclaim::Required);
            if !stays && !is_crossed(threshold, observed, Reclaim::Ignored) {
                return None;
            }
            let since = known.map_or(now, |known| known.since);
            let is_met = now.saturating_duration_since(since) >= threshold.grace;
            Some(Crossed { threshold: *threshold, since, is_met })
        });
        thresholds.collect()
    }

    /// The thresholds that are met by an observation that was not there before. It may bear an earlier time than the one before: clocks
    /// are set back.
    fn due(&self, observed: &Observations) -> Vec<EvictionThreshold> {
        let is_new = |signal: Signal| {
            let before = self.read_at.get(&signal).map(|(_, at)| *at);
            observed.get(&signal).is_some_and(|now| before.is_none_or(|before| now.at != before))
        };
        let due = self.crossed.iter().filter(|crossed| crossed.is_met && is_new(crossed.threshold.signal));
        let mut due: Vec<EvictionThreshold> = due.map(|crossed| crossed.threshold).collect();
        by_priority(&mut due);
        due
    }

    fn state(&self, pressure: Pressure, report: &SignalReport, now: Instant) -> PressureState {
        let within = |at: &Instant| {
            *at == now || now.saturating_duration_since(*at) < self.settings.pressure_transition
        };
        if self.present_at.get(&pressure).is_some_and(within) {
            return PressureState::Present;
        }
        let needed = self.needed(pressure);
        let missing = needed.iter().filter(|signal| !report.observed.contains_key(signal));
        let stale = missing.clone().find(|signal| self.is_stale(**signal, now));
        match (missing.count(), stale) {
            (0, _) => PressureState::Absent,
            (_, Some(signal)) => PressureState::Unknown(explain(*signal, report)),
            // Only for a moment: as it was before.
            (_, None) => match self.pressure.states.get(&pressure) {
                Some(PressureState::NotYet) | None => PressureState::NotYet,
                Some(PressureState::Absent | PressureState::Present | PressureState::Unknown(_)) => {
                    PressureState::Absent
                }
            },
        }
    }

    /// The signals that tell whether there is this pressure: those with a threshold, without any the node's own. The memory of all pods
    /// together is not enough to say, and not needed for it.
    fn needed(&self, pressure: Pressure) -> Vec<Signal> {
        let is_needed =
            |signal: &Signal| self.has_threshold(*signal) && *signal != Signal::AllocatableMemoryAvailable;
        let needed: Vec<Signal> = Signal::of(pressure).filter(is_needed).collect();
        match (needed.is_empty(), pressure) {
            (false, _) => needed,
            (true, Pressure::Memory) => vec![Signal::MemoryAvailable],
            (true, Pressure::Disk) => vec![Signal::NodefsAvailable],
            (true, Pressure::Pid) => vec![Signal::PidAvailable],
        }
    }

    fn has_threshold(&self, signal: Signal) -> bool {
        self.thresholds.iter().any(|threshold| threshold.signal == signal)
    }

    /// Whether a signal that cannot be read now has not been readable for long.
    fn is_stale(&self, signal: Signal, now: Instant) -> bool {
        let last = self.read_at.get(&signal).map_or(self.started, |(at, _)| *at);
        now.saturating_duration_since(last) >= STALE
    }

    fn unreadable(&self, report: &SignalReport, now: Instant) -> BTreeMap<Signal, String> {
        let needed = Pressure::ALL.into_iter().flat_map(|pressure| self.needed(pressure));
        let of_pods = Some(Signal::AllocatableMemoryAvailable).filter(|signal| self.has_threshold(*signal));
        let needed = needed.chain(of_pods);
        let stale =
            needed.filter(|signal| !report.observed.contains_key(signal) && self.is_stale(*signal, now));
        stale.map(|signal| (signal, explain(signal, report))).collect()
    }

    fn looks(&self, observed: &Observations) -> BTreeMap<Signal, SignalLook> {
        let look = |(signal, seen): (&Signal, &Observation)| {
            let limit = |is_hard| limit(&self.thresholds, *signal, is_hard, seen.capacity);
            let look = SignalLook {
                at: seen.at,
                available: seen.available.to_string(),
                capacity: seen.capacity.to_string(),
                threshold: limit(true).map(|limit| limit.to_string()),
                soft_threshold: limit(false).map(|limit| limit.to_string()),
            };
            (*signal, look)
        };
        observed.iter().map(look).collect()
    }
}

fn explain(signal: Signal, report: &SignalReport) -> String {
    let name = signal.name();
    match report.unreadable.get(&signal) {
        Some(why) => format!("kubelet cannot read {name}: {why}"),
        None => format!("kubelet cannot read {name}"),
    }
}
