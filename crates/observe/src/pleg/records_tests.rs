//! Listings in which nothing changed are processed like all others.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::PodRef;
use hostlet_runtime::cri::{Sandbox, SandboxState};
use jiff::Timestamp;
use tokio::time::Instant;

use super::diff::Listing;
use super::inspect::Everything;
use super::records::{Records, Todo};

fn pod() -> PodRef {
    PodRef::new("default", "p", "u")
}

fn listing(state: SandboxState) -> Listing {
    let sandbox =
        Sandbox { id: "s".into(), pod: pod(), attempt: 0, state, created_at: Timestamp::UNIX_EPOCH };
    Listing { sandboxes: vec![sandbox], containers: Vec::new() }
}

fn everything(listing: &Listing) -> Everything {
    Everything { sandboxes: listing.sandboxes.clone().into(), containers: Arc::default() }
}

/// Records that know a ready sandbox, and the listing that showed nothing else, twice.
fn settled(start: Instant) -> (Records, Everything) {
    let (mut records, ready) = (Records::default(), listing(SandboxState::Ready));
    let all = everything(&ready);
    assert_eq!(records.listed_all(all.clone(), start), [Todo::Inspect(pod(), ready.clone())]);
    records.inspected(&pod(), &ready, start);
    for second in 1..3 {
        assert_eq!(records.listed_all(all.clone(), start + Duration::from_secs(second)), []);
    }
    (records, all)
}

#[test]
fn an_equal_listing_changes_nothing() {
    let start = Instant::now();
    let (mut records, _) = settled(start);
    let equal = everything(&listing(SandboxState::Ready));
    assert_eq!(records.listed_all(equal, start + Duration::from_secs(3)), []);
}

#[test]
fn a_pod_whose_inspection_failed_is_inspected_though_its_listing_is_the_same() {
    let start = Instant::now();
    let (mut records, all) = settled(start);
    assert!(records.hinted(&pod()));
    assert!(!records.failed(&pod()));
    let todo = records.listed_all(all, start + Duration::from_secs(3));
    assert_eq!(todo, [Todo::Inspect(pod(), listing(SandboxState::Ready))]);
}

#[test]
fn a_pod_that_was_seen_otherwise_meanwhile_is_inspected_though_its_listing_is_the_same() {
    let start = Instant::now();
    let (mut records, all) = settled(start);
    assert!(records.hinted(&pod()));
    assert_eq!(
        records.listed_all(all.clone(), start + Duration::from_secs(3)),
        [],
        "the inspection is under way"
    );
    records.inspected(&pod(), &listing(SandboxState::NotReady), start + Duration::from_secs(3));
    let todo = records.listed_all(all, start + Duration::from_secs(4));
    assert_eq!(todo, [Todo::Inspect(pod(), listing(SandboxState::Ready))]);
}

#[test]
fn a_pod_that_is_no_longer_listed_is_forgotten() {
    let start = Instant::now();
    let (mut records, all) = settled(start);
    let todo = records.listed_all(everything(&Listing::default()), start + Duration::from_secs(3));
    assert!(matches!(&todo[..], [Todo::Forget(uid, _)] if *uid == pod().uid));
    let todo = records.listed_all(all, start + Duration::from_secs(4));
    assert_eq!(todo, [Todo::Inspect(pod(), listing(SandboxState::Ready))]);
}
