//! Tests of the state of drivers: random registrations and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_plugins::InstanceId;
use proptest::prelude::*;
use tokio::time::Instant;

use super::state::{Answer, State};
use crate::fake::FakeDriver;
use crate::{NodeCapabilities, NodeInfo, NodeService};

const DRIVER: &str = "csi.example.com";

fn service() -> Arc<dyn NodeService> {
    Arc::new(FakeDriver::new(NodeCapabilities::default()))
}

fn said(node_id: &str) -> Answer {
    let info = NodeInfo { node_id: node_id.to_owned(), ..NodeInfo::default() };
    Answer { info: Some(info), capabilities: Some(NodeCapabilities::default()), failure: None }
}

fn failed(why: &str) -> Answer {
    Answer { failure: Some(why.to_owned()), ..Answer::default() }
}

#[test]
fn the_newest_instance_serves_and_the_older_one_again_after_it() {
    let (mut state, now) = (State::default(), Instant::now());
    let (old, new) = (service(), service());
    state.registered(DRIVER, InstanceId(1), old.clone(), now);
    assert_eq!(state.take_due(now).len(), 1);
    state.answered(DRIVER, InstanceId(1), said("old"), now);
    // In whatever order they are registered.
    state.registered(DRIVER, InstanceId(3), new.clone(), now);
    state.registered(DRIVER, InstanceId(2), service(), now);
    assert!(Arc::ptr_eq(&state.services()[DRIVER], &new));
    // What the older one said is true until the newer one says something else.
    assert_eq!(state.infos()[DRIVER].node_id, "old");
    let asked: Vec<u64> = state.take_due(now).into_iter().map(|ask| ask.id.0).collect();
    assert_eq!(asked, [3]);
    state.answered(DRIVER, InstanceId(3), said("new"), now);
    assert_eq!(state.infos()[DRIVER].node_id, "new");
    state.deregistered(DRIVER, InstanceId(3));
    state.deregistered(DRIVER, InstanceId(2));
    assert!(Arc::ptr_eq(&state.services()[DRIVER], &old));
    assert_eq!(state.infos()[DRIVER].node_id, "old");
    assert_eq!(state.next_due(), None);
    state.deregistered(DRIVER, InstanceId(1));
    assert!(state.services().is_empty() && state.infos().is_empty() && state.view(DRIVER).is_none());
}

#[test]
fn a_driver_that_fails_is_asked_again_ever_more_seldom() {
    let (mut state, mut now) = (State::default(), Instant::now());
    state.registered(DRIVER, InstanceId(1), service(), now);
    let mut pauses = Vec::new();
    for attempt in 0..11 {
        assert_eq!(state.take_due(now).len(), 1);
        let news = state.answered(DRIVER, InstanceId(1), failed("starting"), now);
        assert_eq!(news.is_some(), attempt == 0);
        let due = state.view(DRIVER).unwrap().next.unwrap();
        assert!(state.take_due(due - Duration::from_millis(1)).is_empty());
        pauses.push((due - now).as_millis());
        now = due;
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122_000, 122_000, 122_000]);
    state.take_due(now);
    state.answered(DRIVER, InstanceId(1), said("node"), now);
    let view = state.view(DRIVER).unwrap();
    assert_eq!((view.said.failure, view.next, state.next_due()), (None, None, None));
    // What it said stays if it fails later.
    state.refresh(DRIVER, now);
    state.take_due(now);
    assert_eq!(state.answered(DRIVER, InstanceId(1), failed("gone"), now).as_deref(), Some("gone"));
    assert_eq!(state.infos()[DRIVER].node_id, "node");
}

#[test]
fn a_refresh_during_a_question_leads_to_another() {
    let (mut state, now) = (State::default(), Instant::now());
    state.refresh(DRIVER, now);
    state.registered(DRIVER, InstanceId(1), service(), now);
    state.take_due(now);
    state.refresh(DRIVER, now);
    assert!(state.take_due(now).is_empty());
    state.answered(DRIVER, InstanceId(1), said("first"), now);
    assert_eq!(state.take_due(now).len(), 1);
    state.answered(DRIVER, InstanceId(1), said("second"), now);
    assert_eq!((state.take_due(now).len(), state.infos()[DRIVER].node_id.as_str()), (0, "second"));
}

#[derive(Clone, Debug)]
enum Step {
    Register(u64),
    Deregister(u64),
    Ask,
    Answer(bool),
    Refresh,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..4_u64).prop_map(Step::Register),
        (1..4_u64).prop_map(Step::Deregister),
        Just(Step::Ask),
        any::<bool>().prop_map(Step::Answer),
        Just(Step::Refresh),
        (0..200_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn who_serves_is_asked_until_it_has_answered(steps in prop::collection::vec(step(), 1..60)) {
        let (mut state, mut now) = (State::default(), Instant::now());
        // Identifiers are never used again.
        let (mut registered, mut used) = (BTreeMap::new(), BTreeSet::new());
        let mut under_way: Vec<InstanceId> = Vec::new();
        let mut answered = BTreeSet::new();
        for step in steps {
            match step {
                Step::Register(id) if used.insert(id) => {
                    let service = service();
                    registered.insert(id, service.clone());
                    state.registered(DRIVER, InstanceId(id), service, now);
                }
                Step::Register(_) => {}
                Step::Deregister(id) => {
                    registered.remove(&id);
                    state.deregistered(DRIVER, InstanceId(id));
                }
                Step::Ask => under_way.extend(state.take_due(now).into_iter().map(|ask| ask.id)),
                Step::Answer(succeeds) => {
                    if let Some(id) = under_way.pop() {
                        let answer = if succeeds { said(&id.0.to_string()) } else { failed("no") };
                        state.answered(DRIVER, id, answer, now);
                        if succeeds && registered.contains_key(&id.0) {
                            answered.insert(id.0);
                        }
                    }
                }
                Step::Refresh => state.refresh(DRIVER, now),
                Step::Wait(seconds) => now += Duration::from_secs(seconds),
            }
            let unique: BTreeSet<InstanceId> = under_way.iter().copied().collect();
            prop_assert_eq!(unique.len(), under_way.len(), "an instance is asked twice at once");
            let serving = registered.last_key_value();
            match (serving, state.services().get(DRIVER)) {
                (Some((_, expected)), Some(service)) => prop_assert!(Arc::ptr_eq(expected, service)),
                (expected, service) => prop_assert!(expected.is_none() && service.is_none()),
            }
            let newest = registered.keys().rev().find(|id| answered.contains(id)).map(u64::to_string);
            prop_assert_eq!(newest, state.infos().get(DRIVER).map(|info| info.node_id.clone()));
            if let Some((id, _)) = serving {
                let is_served = answered.contains(id)
                    || under_way.contains(&InstanceId(*id))
                    || state.next_due().is_some();
                prop_assert!(is_served, "nobody asks instance {}", id);
            }
        }
    }
}
