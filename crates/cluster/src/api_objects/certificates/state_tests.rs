//! Lives of certificates, by tables and at random.

use hostlet_base::PodEvent;
use hostlet_base::testing::at;
use hostlet_pod::objects::{CertificateError, CertificateState};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::state::{Counted, Decision, Lifecycle, Requested, Step};

/// How far the clock of the API server is ahead of this host's.
const AHEAD: i64 = 5_000;

fn requested(number: usize) -> Requested {
    let ahead = SignedDuration::from_secs(AHEAD);
    Requested { name: format!("req-{number}"), key: format!("key-{number}"), ahead }
}

/// A certificate by this host's clock.
fn issued(number: usize, renew_at: i64, expires: i64) -> Decision {
    Decision::Issued {
        chain: format!("chain-{number}"),
        renew_at: at(renew_at + AHEAD),
        expires: at(expires + AHEAD),
    }
}

fn denied() -> Decision {
    Decision::Denied { reason: "No".to_owned(), message: "not you".to_owned() }
}

fn failed() -> Decision {
    Decision::Failed { reason: "Broken".to_owned(), message: "disk".to_owned() }
}

/// The life after a first certificate.
fn fresh(renew_at: i64, expires: i64) -> Lifecycle {
    Lifecycle::Initial.requested(requested(1)).decided(issued(1, renew_at, expires), "ns", 0.0).0
}

fn key(life: &Lifecycle) -> Option<String> {
    life.held().map(|held| held.credential.key.clone())
}

#[test]
fn a_certificate_is_renewed_when_the_signer_says_so_whatever_the_clock_says() {
    let life = fresh(1_000, 2_000);
    assert_eq!(life.step(at(999)), Step::Sleep(at(1_000)));
    assert_eq!(life.step(at(1_000)), Step::Request);
    let renewing = life.requested(requested(2));
    assert_eq!(renewing.step(at(1_001)), Step::Await("req-2".to_owned()));
    assert_eq!(key(&renewing), Some("key-1".to_owned()), "until the next one is issued");
    let (renewed, event) = renewing.decided(issued(2, 3_000, 4_000), "ns", 1.0);
    assert_eq!((key(&renewed), event), (Some("key-2".to_owned()), None));
    assert_eq!(renewed.step(at(1_001)), Step::Sleep(at(3_300)), "five minutes of jitter");
}

#[test]
fn a_rejection_is_final_and_reported_with_its_reason() {
    let waiting = || Lifecycle::Initial.requested(requested(1));
    let renewing = || fresh(1_000, 2_000).requested(requested(2));
    for (life, name) in [(waiting(), "req-1"), (renewing(), "req-2")] {
        let (after, event) = life.clone().decided(denied(), "ns", 0.0);
        let text = format!("PodCertificateRequest ns/{name} was denied, reason=\"No\", message=\"not you\"");
        assert_eq!(event, Some(PodEvent::warning("Denied", text)));
        assert_eq!(after.step(at(0)), Step::Rest);
        let Some(CertificateState::Failed(CertificateError::Denied { .. })) = after.published() else {
            panic!("{after:?}");
        };
        let (after, event) = life.decided(failed(), "ns", 0.0);
        let text = format!("PodCertificateRequest ns/{name} failed, reason=\"Broken\", message=\"disk\"");
        assert_eq!(event, Some(PodEvent::warning("Failed", text)));
        assert_eq!((after.step(at(0)), after.counted()), (Step::Rest, Counted::Failed));
    }
}

#[test]
fn a_deleted_request_is_made_again() {
    let (life, event) = Lifecycle::Initial.requested(requested(1)).decided(Decision::Deleted, "ns", 0.0);
    assert_eq!((life, event), (Lifecycle::Initial, None));
    let fresh = fresh(1_000, 2_000);
    assert_eq!(fresh.clone().requested(requested(2)).decided(Decision::Deleted, "ns", 0.0), (fresh, None));
}

#[test]
fn what_is_overdue_or_expired_is_reported_once() {
    let mut life = fresh(1_000, 10_000).requested(requested(2));
    let reasons = |life: &mut Lifecycle, now: i64| -> Vec<String> {
        life.reports(at(now)).into_iter().map(|event| event.to_string()).collect()
    };
    assert_eq!((life.next_report(), reasons(&mut life, 1_600).len()), (Some(at(1_600)), 0));
    assert_eq!(reasons(&mut life, 1_601), ["CertificateOverdueForRefresh: PodCertificate refresh overdue"]);
    assert_eq!(
        (life.next_report(), life.counted().label(at(1_601))),
        (Some(at(10_000)), "overdue_for_refresh")
    );
    assert_eq!(reasons(&mut life, 10_001), ["CertificateExpired: PodCertificate expired"]);
    assert_eq!((reasons(&mut life, 20_000).len(), life.next_report()), (0, None));
    assert_eq!(life.counted().label(at(20_000)), "expired");
    let labels = [Lifecycle::Initial, Lifecycle::Initial.requested(requested(1)), fresh(1_000, 2_000)]
        .map(|life| life.counted().label(at(0)));
    assert_eq!(labels, ["not_yet_issued", "not_yet_issued", "fresh"]);
}

#[derive(Clone, Debug)]
enum Input {
    /// Time passes, seconds.
    Pass(i64),
    /// The next request can be created.
    Create,
    /// A request is decided: issued with these times from now, rejected, or deleted.
    Issue(i64, i64),
    Deny,
    Fail,
    Delete,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        3 => (1i64..5_000).prop_map(Input::Pass),
        4 => Just(Input::Create),
        4 => (0i64..3_000, 0i64..6_000).prop_map(|(renew, life)| Input::Issue(renew, renew + life)),
        1 => Just(Input::Deny),
        1 => Just(Input::Fail),
        1 => Just(Input::Delete),
    ]
}

/// What the world knows of a life.
#[derive(Default)]
struct World {
    /// Number of requests created.
    requests: usize,
    /// The request that waits.
    waits: Option<usize>,
    /// The request whose certificate the pod has, and its times.
    held: Option<(usize, Timestamp, Timestamp)>,
    is_rejected: bool,
    /// Events since the certificate was issued.
    reported: Vec<String>,
}

proptest! {
    #[test]
    fn a_life_asks_for_one_certificate_at_a_time_and_never_loses_or_mixes_up_a_key(
        inputs in prop::collection::vec(input(), 1..60), jitter in 0.0f64..1.0,
    ) {
        let (mut now, mut life, mut world) = (0, Lifecycle::Initial, World::default());
        for input in inputs {
            let decision = match input {
                Input::Pass(seconds) => {
                    now += seconds;
                    None
                }
                Input::Create => {
                    if life.step(at(now)) == Step::Request {
                        prop_assert!(world.waits.is_none() && !world.is_rejected);
                        prop_assert!(world.held.is_none_or(|(_, renew_at, _)| renew_at <= at(now)));
                        world.requests += 1;
                        world.waits = Some(world.requests);
                        life = life.requested(requested(world.requests));
                    }
                    None
                }
                Input::Issue(renew, expires) => Some(issued(world.requests, now + renew, now + expires)),
                Input::Deny => Some(denied()),
                Input::Fail => Some(failed()),
                Input::Delete => Some(Decision::Deleted),
            };
            if let Some(decision) = decision {
                let before = life.clone();
                let (after, event) = life.decided(decision.clone(), "ns", jitter);
                life = after;
                match world.waits.take() {
                    None => prop_assert_eq!((&life, event), (&before, None), "nothing waits"),
                    Some(number) => match decision {
                        Decision::Issued { .. } => {
                            let held = life.held().unwrap();
                            world.held = Some((number, held.renew_at, held.expires));
                            world.reported.clear();
                        }
                        Decision::Denied { .. } | Decision::Failed { .. } => {
                            prop_assert!(event.is_some());
                            world.is_rejected = true;
                        }
                        Decision::Deleted => {}
                    },
                }
            }
            let is_due = life.next_report().is_some_and(|next| next < at(now));
            let events = life.reports(at(now));
            prop_assert_eq!(is_due, !events.is_empty());
            prop_assert!(life.reports(at(now)).is_empty());
            for event in events {
                prop_assert!(!world.reported.contains(&event.to_string()), "{event} again");
                world.reported.push(event.to_string());
            }
            match (life.step(at(now)), world.waits) {
                (Step::Await(name), Some(number)) => prop_assert_eq!(name, requested(number).name),
                (Step::Rest, None) => prop_assert!(world.is_rejected),
                (Step::Request, None) => prop_assert!(!world.is_rejected),
                (Step::Sleep(until), None) => prop_assert!(until > at(now) && world.held.is_some()),
                (step, waits) => prop_assert!(false, "{step:?} with {waits:?}"),
            }
            match (life.published(), &world) {
                (Some(CertificateState::Failed(_)), World { is_rejected: true, .. }) => {}
                (Some(CertificateState::Issued(credential)), World { held: Some((number, ..)), is_rejected: false, .. }) => {
                    prop_assert_eq!(&credential.key, &requested(*number).key);
                    prop_assert_eq!(&credential.chain, &format!("chain-{number}"));
                }
                (None, World { held: None, is_rejected: false, .. }) => {}
                (published, _) => prop_assert!(false, "{published:?}"),
            }
        }
    }
}
