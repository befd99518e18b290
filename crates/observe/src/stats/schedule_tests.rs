//! Tests of the schedule.

use std::time::Duration;

use hostlet_base::PodRef;
use tokio::time::Instant;

use super::schedule::{Part, PartKind, Schedule};
use super::{PodPlaces, VolumePlace};

const PACE: Duration = Duration::from_secs(10);

fn places(name: &str, volumes: &[&str], containers: bool) -> PodPlaces {
    let place = VolumePlace::limited("/v".into(), 0);
    PodPlaces {
        pod: PodRef::new("default", name, name),
        volumes: volumes.iter().map(|volume| ((*volume).to_owned(), place.clone())).collect(),
        external: [].into(),
        containers: containers.then(|| "/hosts".into()),
    }
}

fn volume(name: &str) -> Part {
    Part::Volume(name.to_owned())
}

#[test]
fn new_parts_are_due_and_others_keep_their_turn() {
    let (mut schedule, now) = (Schedule::default(), Instant::now());
    schedule.set([places("a", &["x"], true)].iter(), now);
    assert_eq!(schedule.take(&PartKind::Containers, now), Some(("a".into(), Part::Containers)));
    assert_eq!(schedule.take(&PartKind::Containers, now), None, "it is under way");
    assert_eq!(schedule.take(&PartKind::Volume, now), Some(("a".into(), volume("x"))));
    schedule.done(&"a".into(), &volume("x"), Duration::ZERO, PACE, now);
    schedule.set([places("a", &["x", "y"], true)].iter(), now);
    assert_eq!(schedule.take(&PartKind::Volume, now), Some(("a".into(), volume("y"))));
    assert_eq!(schedule.take(&PartKind::Volume, now), None);
    let later = now + Duration::from_secs(10);
    assert_eq!(schedule.next(&PartKind::Volume), Some(later));
    assert_eq!(schedule.take(&PartKind::Volume, later), Some(("a".into(), volume("x"))));
    // What is no longer measured is forgotten, also while it is under way.
    schedule.set([places("b", &[], true)].iter(), later);
    schedule.done(&"a".into(), &volume("x"), Duration::ZERO, PACE, later);
    assert_eq!(schedule.next(&PartKind::Volume), None);
    assert_eq!(schedule.take(&PartKind::Containers, later), Some(("b".into(), Part::Containers)));
}

#[test]
fn what_takes_long_is_measured_less_often() {
    let now = Instant::now();
    for (took, interval) in [(0, 10), (400, 10), (1_000, 20), (10_000, 200), (60_000, 300), (u64::MAX, 300)] {
        let mut schedule = Schedule::default();
        schedule.set([places("a", &["x"], false)].iter(), now);
        let (pod, part) = schedule.take(&PartKind::Volume, now).unwrap();
        schedule.done(&pod, &part, Duration::from_millis(took), PACE, now);
        assert_eq!(schedule.next(&PartKind::Volume), Some(now + Duration::from_secs(interval)), "{took} ms");
    }
}

#[test]
fn the_part_that_is_due_for_the_longest_time_comes_first() {
    let (mut schedule, now) = (Schedule::default(), Instant::now());
    schedule.set([places("b", &["x"], false)].iter(), now);
    let later = now + Duration::from_secs(1);
    schedule.set([places("a", &["x"], false), places("b", &["x"], false)].iter(), later);
    let order: Vec<_> = std::iter::from_fn(|| schedule.take(&PartKind::Volume, later)).collect();
    assert_eq!(order, [("b".into(), volume("x")), ("a".into(), volume("x"))]);
}

#[test]
fn a_slow_pace_is_kept() {
    let (mut schedule, now) = (Schedule::default(), Instant::now());
    for (pace, interval) in [(60, 60), (600, 600)] {
        schedule.set([places("a", &["x"], false)].iter(), now);
        let (pod, part) = schedule.take(&PartKind::Volume, now).unwrap();
        schedule.done(&pod, &part, Duration::ZERO, Duration::from_secs(pace), now);
        assert_eq!(schedule.next(&PartKind::Volume), Some(now + Duration::from_secs(interval)));
        schedule.set(std::iter::empty(), now);
    }
}
