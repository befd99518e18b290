//! Looks at a node over time, and random ones.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::Quantity;
use hostlet_base::node::{Pressure, PressureState, Signal, Threshold};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold};
use hostlet_observe::stats::SignalReport;
use proptest::prelude::*;
use tokio::time::Instant;

use super::pressure::{PressureTracker, Verdict};
use super::testing::report;

const TRANSITION: Duration = Duration::from_secs(300);

fn threshold(signal: Signal, least: u64, grace: u64, min_reclaim: Option<u64>) -> EvictionThreshold {
    let amount = |amount: u64| Threshold::Amount(Quantity::count(amount));
    EvictionThreshold {
        signal,
        value: amount(least),
        grace: Duration::from_secs(grace),
        min_reclaim: min_reclaim.map(amount),
    }
}

struct Node {
    tracker: PressureTracker,
    start: Instant,
    second: u64,
}

impl Node {
    fn new(thresholds: &[EvictionThreshold]) -> Self {
        let settings = EvictionSettings {
            thresholds: thresholds.to_vec(),
            pressure_transition: TRANSITION,
            ..EvictionSettings::default()
        };
        let start = Instant::now();
        Self { tracker: PressureTracker::new(settings, start), start, second: 0 }
    }

    /// Looks after so many seconds.
    fn look(&mut self, after: u64, seen: &SignalReport) -> Verdict {
        self.second += after;
        let mut seen = seen.clone();
        for observation in seen.observed.values_mut() {
            observation.at = hostlet_base::testing::at(i64::try_from(self.second).unwrap());
        }
        self.tracker.look(&seen, self.start + Duration::from_secs(self.second))
    }
}

/// Plenty of everything, and so much left of these.
fn left<const N: usize>(amounts: [(Signal, u64); N]) -> SignalReport {
    let mut all: BTreeMap<Signal, (u64, u64)> = Signal::ALL.map(|signal| (signal, (1000, 1000))).into();
    all.extend(amounts.map(|(signal, left)| (signal, (left, 1000))));
    report(&all, &BTreeMap::new(), 0)
}

/// Plenty of everything, and nothing known of these.
fn unreadable<const N: usize>(signals: [Signal; N]) -> SignalReport {
    let all = Signal::ALL.map(|signal| (signal, (1000, 1000))).into();
    report(&all, &signals.map(|signal| (signal, "no".to_owned())).into(), 0)
}

fn state(verdict: &Verdict, pressure: Pressure) -> PressureState {
    verdict.pressure.states[&pressure].clone()
}

fn due(verdict: &Verdict) -> Vec<(Signal, bool)> {
    verdict.due.iter().map(|threshold| (threshold.signal, threshold.is_hard())).collect()
}

use PressureState::{Absent, NotYet, Present};
use Signal::{AllocatableMemoryAvailable, ImagefsAvailable, MemoryAvailable, NodefsAvailable, PidAvailable};

#[tokio::test(start_paused = true)]
async fn a_hard_threshold_is_due_at_once_and_its_pressure_outlasts_it() {
    let mut node = Node::new(&[threshold(MemoryAvailable, 100, 0, None)]);
    let fine = node.look(0, &left([(MemoryAvailable, 100)]));
    assert_eq!((due(&fine), state(&fine, Pressure::Memory)), (vec![], Absent));
    let low = node.look(10, &left([(MemoryAvailable, 99)]));
    assert_eq!((due(&low), state(&low, Pressure::Memory)), (vec![(MemoryAvailable, true)], Present));
    assert_eq!(state(&low, Pressure::Disk), Absent);
    let relieved = node.look(10, &left([]));
    assert_eq!((due(&relieved), state(&relieved, Pressure::Memory)), (vec![], Present));
    assert_eq!(state(&node.look(289, &left([])), Pressure::Memory), Present);
    assert_eq!(state(&node.look(1, &left([])), Pressure::Memory), Absent);
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_is_due_after_its_grace_period_but_its_pressure_is_there_at_once() {
    let mut node = Node::new(&[threshold(NodefsAvailable, 100, 60, None)]);
    let low = left([(NodefsAvailable, 50), (Signal::ContainerfsAvailable, 50)]);
    for after in [0, 10, 20, 29] {
        let verdict = node.look(after, &low);
        assert_eq!((due(&verdict), state(&verdict, Pressure::Disk)), (vec![], Present), "{after}");
    }
    // Those of writable layers follow.
    let expected = vec![(NodefsAvailable, false), (Signal::ContainerfsAvailable, false)];
    assert_eq!(due(&node.look(1, &low)), expected);
    // It begins anew.
    node.look(10, &left([]));
    assert_eq!(due(&node.look(10, &low)), vec![]);
    assert_eq!(due(&node.look(60, &low)), expected);
}

#[tokio::test(start_paused = true)]
async fn a_met_threshold_stays_due_until_its_minimum_is_reclaimed() {
    let mut node = Node::new(&[threshold(MemoryAvailable, 100, 0, Some(200))]);
    assert_eq!(due(&node.look(0, &left([(MemoryAvailable, 150)]))), vec![], "it was not crossed before");
    assert_eq!(due(&node.look(10, &left([(MemoryAvailable, 50)]))).len(), 1);
    assert_eq!(due(&node.look(10, &left([(MemoryAvailable, 299)]))).len(), 1);
    assert_eq!(due(&node.look(10, &left([(MemoryAvailable, 300)]))), vec![]);
    assert_eq!(due(&node.look(10, &left([(MemoryAvailable, 150)]))), vec![]);
    // A soft one that is not due yet consumption no more than itself.
    let mut node = Node::new(&[threshold(MemoryAvailable, 100, 60, Some(200))]);
    node.look(0, &left([(MemoryAvailable, 50)]));
    node.look(30, &left([(MemoryAvailable, 150)]));
    assert_eq!(due(&node.look(30, &left([(MemoryAvailable, 50)]))), vec![]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_due_twice_because_of_one_observation() {
    let mut node = Node::new(&[threshold(MemoryAvailable, 100, 0, None)]);
    assert_eq!(due(&node.look(5, &left([(MemoryAvailable, 1)]))).len(), 1);
    assert_eq!(due(&node.look(0, &left([(MemoryAvailable, 1)]))), vec![]);
    assert_eq!(due(&node.look(1, &left([(MemoryAvailable, 1)]))).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_observation_is_new_although_the_clock_was_set_back() {
    let mut node = Node::new(&[threshold(MemoryAvailable, 100, 0, None)]);
    assert_eq!(due(&node.look(5, &left([(MemoryAvailable, 200)]))).len(), 0);
    let mut seen = left([(MemoryAvailable, 1)]);
    seen.observed.values_mut().for_each(|seen| seen.at = hostlet_base::testing::at(1));
    assert_eq!(due(&node.tracker.look(&seen, node.start + Duration::from_secs(6))).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn memory_comes_first_of_all_that_is_due() {
    let thresholds = [
        threshold(PidAvailable, 100, 0, None),
        threshold(NodefsAvailable, 100, 0, None),
        threshold(MemoryAvailable, 100, 0, None),
    ];
    let mut node = Node::new(&thresholds);
    let verdict = node.look(0, &left([(PidAvailable, 1), (NodefsAvailable, 1), (MemoryAvailable, 1)]));
    assert_eq!(due(&verdict)[0], (MemoryAvailable, true));
    assert_eq!(verdict.pressure.active().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_unknown_after_a_minute_and_never_sufficient_from_the_start() {
    let mut node = Node::new(&[threshold(ImagefsAvailable, 100, 0, None)]);
    let silent = unreadable([ImagefsAvailable]);
    assert_eq!(state(&node.look(0, &silent), Pressure::Disk), NotYet);
    assert_eq!(state(&node.look(59, &silent), Pressure::Disk), NotYet);
    let unknown = node.look(1, &silent);
    let why = "kubelet cannot read imagefs.available: no".to_owned();
    assert_eq!(state(&unknown, Pressure::Disk), PressureState::Unknown(why.clone()));
    assert_eq!(unknown.unreadable, [(ImagefsAvailable, why)].into());
    assert_eq!(state(&unknown, Pressure::Memory), Absent, "that was seen");
    assert_eq!(state(&node.look(10, &left([])), Pressure::Disk), Absent);
    // A moment changes nothing.
    let verdict = node.look(10, &silent);
    assert_eq!((state(&verdict, Pressure::Disk), verdict.unreadable), (Absent, BTreeMap::new()));
    // The node's own memory is enough to say whether there is pressure.
    let thresholds =
        [MemoryAvailable, AllocatableMemoryAvailable].map(|signal| threshold(signal, 100, 0, None));
    let mut node = Node::new(&thresholds);
    let verdict = node.look(60, &unreadable([AllocatableMemoryAvailable]));
    assert_eq!(state(&verdict, Pressure::Memory), Absent);
    assert!(verdict.unreadable.contains_key(&AllocatableMemoryAvailable));
    // Without a threshold only the node's own signals matter.
    let mut node = Node::new(&[]);
    assert_eq!(state(&node.look(120, &silent), Pressure::Disk), Absent);
    assert!(matches!(
        state(&node.look(0, &unreadable([PidAvailable])), Pressure::Pid),
        PressureState::Absent
    ));
}

#[tokio::test(start_paused = true)]
async fn a_moment_without_an_observation_does_not_restart_a_grace_period() {
    let mut node = Node::new(&[threshold(ImagefsAvailable, 100, 60, None)]);
    let low = left([(ImagefsAvailable, 50)]);
    node.look(0, &low);
    assert_eq!(due(&node.look(30, &unreadable([ImagefsAvailable]))), vec![]);
    assert_eq!(due(&node.look(30, &low)), vec![(ImagefsAvailable, false)]);
    // Nothing is due that nobody sees.
    assert_eq!(due(&node.look(30, &unreadable([ImagefsAvailable]))), vec![]);
}

#[tokio::test(start_paused = true)]
async fn a_look_says_what_was_seen_and_what_has_to_be_left() {
    let mut node =
        Node::new(&[threshold(PidAvailable, 100, 0, None), threshold(PidAvailable, 200, 60, None)]);
    let verdict = node.look(7, &left([(PidAvailable, 500)]));
    let look = &verdict.pressure.looks[&PidAvailable];
    assert_eq!(look.at.as_second(), 7);
    let amounts = [Some(&*look.available), Some(&*look.capacity), look.threshold.as_deref()];
    assert_eq!(amounts, [Some("500"), Some("1k"), Some("100")]);
    assert_eq!(look.soft_threshold.as_deref(), Some("200"));
}

proptest! {
    /// Whatever is observed: a pressure is there exactly from its first observation until its transition period has passed after the
    /// last one; only crossed thresholds are due, soft ones not before their grace periods; and more left is never worse.
    #[test]
    fn pressures_do_not_flap_and_thresholds_are_monotone(
        looks in prop::collection::vec((1_u64..200, 0_u64..400, 0_u64..100), 1..60),
        grace in 0_u64..90, reclaim in 0_u64..200,
    ) {
        let thresholds = [
            threshold(MemoryAvailable, 100, 0, Some(reclaim)),
            threshold(MemoryAvailable, 200, grace.max(1), None),
        ];
        let (mut node, mut richer) = (Node::new(&thresholds), Node::new(&thresholds));
        let (mut last_low, mut low_since, mut held) = (None, None, false);
        for (after, amount, more) in looks {
            let verdict = node.look(after, &left([(MemoryAvailable, amount)]));
            let other = richer.look(after, &left([(MemoryAvailable, amount + more)]));
            let now = node.second;
            let is_hard_due = due(&verdict).contains(&(MemoryAvailable, true));
            // The hard threshold holds until its minimum is reclaimed.
            let expected = amount < 100 || (held && amount < 100 + reclaim);
            prop_assert_eq!(is_hard_due, expected);
            held = expected;
            low_since = if amount < 200 { low_since.or(Some(now)) } else { None };
            let is_soft_due = due(&verdict).contains(&(MemoryAvailable, false));
            prop_assert_eq!(is_soft_due, low_since.is_some_and(|since| now - since >= grace.max(1)));
            if amount < 200 || expected {
                last_low = Some(now);
            }
            let is_present = state(&verdict, Pressure::Memory) == Present;
            prop_assert_eq!(is_present, last_low.is_some_and(|at| now - at < TRANSITION.as_secs()));
            // With more left, nothing is due, and nothing pressing, that is not with less.
            for threshold in due(&other) {
                prop_assert!(due(&verdict).contains(&threshold));
            }
            prop_assert!(is_present || state(&other, Pressure::Memory) == Absent);
        }
    }
}
