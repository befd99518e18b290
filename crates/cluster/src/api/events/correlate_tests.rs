//! Counting, aggregation and rate limits.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::EventKind;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::EventRecord;
use super::correlate::Correlator;

fn event_record(object: &str, message: &str) -> EventRecord {
    let object = ObjectReference { name: Some(object.to_owned()), ..ObjectReference::default() };
    EventRecord {
        object,
        kind: EventKind::Warning,
        reason: "Failed".to_owned(),
        message: message.to_owned(),
        annotations: BTreeMap::new(),
    }
}

fn clock() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

#[test]
fn equal_events_are_counted_in_their_object() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let first = all.observe(&event_record("a", "no"), clock(), now).unwrap();
    assert_eq!((first.name.as_deref(), first.count), (None, 1));
    all.written(&first.key, "a.1".to_owned());
    let again = all.observe(&event_record("a", "no"), clock(), now).unwrap();
    assert_eq!((again.name.as_deref(), again.count), (Some("a.1"), 2));
    let other = all.observe(&event_record("b", "no"), clock(), now).unwrap();
    assert_eq!((other.name.as_deref(), other.count), (None, 1));
    all.lost(&again.key);
    assert_eq!(all.observe(&event_record("a", "no"), clock(), now).unwrap().name, None);
}

#[test]
fn many_similar_events_are_aggregated_until_a_long_pause() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let mut observed: Vec<_> =
        (0..12).map(|n| all.observe(&event_record("a", &n.to_string()), clock(), now).unwrap()).collect();
    let last = observed.pop().unwrap();
    assert_eq!(observed[8].message, "8");
    assert_eq!(observed[9].message, "(combined from similar events): 9");
    assert_eq!((last.message.as_str(), last.count), ("(combined from similar events): 11", 3));
    let known = all.observe(&event_record("a", "11"), clock(), now).unwrap();
    assert_eq!((known.message.as_str(), known.count), ("11", 1), "only what is new is aggregated");
    let later = now + Duration::from_secs(601);
    assert_eq!(all.observe(&event_record("a", "new"), clock(), later).unwrap().message, "new");
}

#[test]
fn a_noisy_object_is_rate_limited_on_its_own() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let mut observe = |object, now| all.observe(&event_record(object, "no"), clock(), now);
    let observed = (0..100).filter_map(|_| observe("a", now)).count();
    assert_eq!(observed, 25);
    assert!(observe("b", now).is_some());
    let later = now + Duration::from_secs(300);
    assert_eq!(observe("a", later).unwrap().count, 101, "dropped events are counted");
    assert!(observe("a", later).is_none());
}

/// An event of this kind about a container of the pod `a`.
fn of_container(name: &str, kind: EventKind, message: &str) -> EventRecord {
    let mut record = event_record("a", message);
    record.object.field_path = Some(format!("spec.containers{{{name}}}"));
    EventRecord { kind, ..record }
}

#[test]
fn normal_events_and_warnings_of_an_object_are_limited_apart() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let mut written = |name: &str, kind| {
        let records = (0..100).map(|_| of_container(name, kind, "again"));
        records.filter(|record| all.observe(record, clock(), now).is_some()).count()
    };
    assert_eq!(written("c", EventKind::Warning), 25);
    assert_eq!(written("d", EventKind::Warning), 0, "containers have no limit of their own");
    assert_eq!(written("d", EventKind::Normal), 25);
}

#[test]
fn events_of_all_containers_are_similar_but_not_equal() {
    let (mut all, now) = (Correlator::default(), Instant::now());
    let mut observe = |name: &str, message: &str| {
        all.observe(&of_container(name, EventKind::Warning, message), clock(), now).unwrap()
    };
    assert_eq!((observe("c", "no").count, observe("d", "no").count), (1, 1));
    for n in 1..9 {
        assert_eq!(observe("c", &n.to_string()).count, 1);
    }
    let (of_c, of_d) = (observe("c", "9"), observe("d", "10"));
    assert_eq!((of_c.message.as_str(), of_c.count), ("(combined from similar events): 9", 1));
    assert_eq!((of_d.message.as_str(), of_d.count), ("(combined from similar events): 10", 2));
}

#[test]
fn memory_is_bounded() {
    let (mut all, start) = (Correlator::default(), Instant::now());
    for n in 0..20_000u32 {
        all.observe(&event_record(&n.to_string(), "no"), clock(), start + Duration::from_millis(n.into()));
    }
    let observed =
        all.observe(&event_record("19999", "no"), clock(), start + Duration::from_secs(21)).unwrap();
    assert_eq!(observed.count, 2, "the newest are remembered");
    let observed = all.observe(&event_record("0", "no"), clock(), start + Duration::from_secs(21)).unwrap();
    assert_eq!(observed.count, 1, "the oldest are forgotten");
}
