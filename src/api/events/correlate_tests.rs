//! Counting, combining, cutting off.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::EventRecord;
use super::correlate::Correlator;
use crate::types::EventKind;

fn happening(object: &str, message: &str) -> EventRecord {
    let object = ObjectReference { name: Some(object.to_owned()), ..ObjectReference::default() };
    EventRecord { object, kind: EventKind::Warning, reason: "Failed".to_owned(), message: message.to_owned() }
}

fn clock() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

#[test]
fn equal_ones_are_counted_in_the_object_that_says_it() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let first = all.observe(&happening("a", "no"), clock(), now).unwrap();
    assert_eq!((first.name.as_deref(), first.count), (None, 1));
    all.told(&first.key, "a.1".to_owned());
    let again = all.observe(&happening("a", "no"), clock(), now).unwrap();
    assert_eq!((again.name.as_deref(), again.count), (Some("a.1"), 2));
    let other = all.observe(&happening("b", "no"), clock(), now).unwrap();
    assert_eq!((other.name.as_deref(), other.count), (None, 1));
    all.lost(&again.key);
    assert_eq!(all.observe(&happening("a", "no"), clock(), now).unwrap().name, None);
}

#[test]
fn many_similar_ones_are_combined_until_it_was_quiet_for_long() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let mut told: Vec<_> =
        (0..12).map(|n| all.observe(&happening("a", &n.to_string()), clock(), now).unwrap()).collect();
    let last = told.pop().unwrap();
    assert_eq!(told[8].message, "8");
    assert_eq!(told[9].message, "(combined from similar events): 9");
    assert_eq!((last.message.as_str(), last.count), ("(combined from similar events): 11", 3));
    let later = now + Duration::from_secs(601);
    assert_eq!(all.observe(&happening("a", "new"), clock(), later).unwrap().message, "new");
}

#[test]
fn an_object_that_never_stops_is_cut_off_alone_and_for_a_while() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let mut tell = |object, now| all.observe(&happening(object, "no"), clock(), now);
    let told = (0..100).filter_map(|_| tell("a", now)).count();
    assert_eq!(told, 25);
    assert!(tell("b", now).is_some());
    let later = now + Duration::from_secs(300);
    assert_eq!(tell("a", later).unwrap().count, 101, "what was not told is counted");
    assert!(tell("a", later).is_none());
}

#[test]
fn memory_is_bounded() {
    let (mut all, start) = (Correlator::default(), Instant::now());
    for n in 0..20_000u32 {
        all.observe(&happening(&n.to_string(), "no"), clock(), start + Duration::from_millis(n.into()));
    }
    let told = all.observe(&happening("19999", "no"), clock(), start + Duration::from_secs(21)).unwrap();
    assert_eq!(told.count, 2, "the newest are remembered");
    let told = all.observe(&happening("0", "no"), clock(), start + Duration::from_secs(21)).unwrap();
    assert_eq!(told.count, 1, "the oldest are forgotten");
}
