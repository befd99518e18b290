//! Stops that wait at the gate, in paused time: their order, their bound, and urgent ones.

use futures::future::join_all;
use parking_lot::Mutex as Notes;
use proptest::prelude::*;
use tokio::time::sleep;

use super::*;

fn ordinary(gate: &StopGate) -> PendingStop {
    gate.begin(Rank::default(), Urgency::default())
}

#[tokio::test(start_paused = true)]
async fn pods_that_exit_at_once_are_stopped_one_after_the_other() {
    let (gate, start) = (StopGate::new(2), Instant::now());
    let order = &Notes::new(Vec::new());
    join_all((0..4).map(async |pod| {
        let call = async || sleep(Duration::from_millis(100)).await;
        let mut stopping = ordinary(&gate);
        stopping.containers(call()).await;
        stopping.sandboxes(call()).await;
        order.lock().push((pod, start.elapsed().as_millis()));
    }))
    .await;
    assert_eq!(*order.lock(), [(0, 200), (1, 200), (2, 400), (3, 400)]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_uses_its_grace_period_holds_up_no_other_for_long() {
    let (gate, start) = (StopGate::new(1), Instant::now());
    let signalled = join_all((0..3).map(async |_| {
        let mut stopping = ordinary(&gate);
        let grace = async {
            let signalled = start.elapsed();
            sleep(Duration::from_secs(30)).await;
            signalled
        };
        stopping.containers(grace).await
    }))
    .await;
    assert_eq!(signalled, [Duration::ZERO, CONTAINERS, 2 * CONTAINERS]);
    assert_eq!(start.elapsed(), Duration::from_secs(30) + 2 * CONTAINERS);
}

#[tokio::test(start_paused = true)]
async fn pods_whose_containers_terminated_go_before_those_not_begun() {
    let gate = StopGate::new(1);
    let order = &Notes::new(Vec::new());
    join_all((0..4).map(async |pod| {
        let mut stopping = ordinary(&gate);
        let slow = async {
            order.lock().push(format!("{pod} begins"));
            sleep(CONTAINERS + Duration::from_millis(10)).await;
        };
        stopping.containers(slow).await;
        stopping.sandboxes(async { order.lock().push(format!("{pod} ends")) }).await;
    }))
    .await;
    let steps = ["0 begins", "1 begins", "0 ends", "2 begins", "1 ends", "3 begins", "2 ends", "3 ends"];
    assert_eq!(*order.lock(), steps);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_hangs_releases_its_place() {
    let gate = StopGate::new(1);
    let (mut hung, mut other) = (ordinary(&gate), ordinary(&gate));
    let start = Instant::now();
    tokio::select! {
        biased;
        () = hung.sandboxes(std::future::pending()) => {}
        () = other.containers(async {}) => {}
    }
    assert_eq!(start.elapsed(), SANDBOXES);
}

#[tokio::test(start_paused = true)]
async fn the_most_important_waiter_goes_first() {
    let gate = StopGate::new(1);
    let order = &Notes::new(Vec::new());
    join_all([1, 0, 7, 2_000_000_000, 7].into_iter().enumerate().map(async |(pod, priority)| {
        let mut stopping = gate.begin(Rank::of_priority(priority), Urgency::default());
        stopping.containers(sleep(Duration::from_millis(1))).await;
        order.lock().push(pod);
    }))
    .await;
    // The first has its place before the others arrive.
    assert_eq!(*order.lock(), [0, 3, 2, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_urgent_stop_does_not_wait() {
    let (gate, start) = (StopGate::new(1), Instant::now());
    let busy = async {
        join_all((0..110).map(async |_| {
            ordinary(&gate).containers(sleep(Duration::from_secs(30))).await;
        }))
        .await;
    };
    let needed = async {
        sleep(Duration::from_millis(1)).await;
        let urgency = Urgency::default();
        urgency.raise();
        let mut stopping = gate.begin(Rank::default(), urgency);
        let at = stopping.containers(async { start.elapsed() }).await;
        assert_eq!(at, Duration::from_millis(1));
        assert_eq!(stopping.sandboxes(async { start.elapsed() }).await, at);
    };
    let needed_later = async {
        sleep(Duration::from_millis(1)).await;
        let urgency = Urgency::default();
        let mut stopping = gate.begin(Rank::default(), urgency.clone());
        let raise = async {
            sleep(Duration::from_secs(1)).await;
            urgency.raise();
        };
        let (at, ()) = tokio::join!(stopping.containers(async { start.elapsed() }), raise);
        assert_eq!(at, Duration::from_millis(1001));
    };
    tokio::join!(busy, needed, needed_later);
    assert_eq!(gate.state.lock().free, 1);
}

/// One stop: when it begins, its priority, how long its containers and sandboxes take, and when it is cancelled.
type Case = (u64, i32, u64, u64, Option<u64>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives and leaves: no place is held beyond its limit, all places are free in the end, and no stop waits
    /// longer than the stops before it may hold their places.
    #[test]
    fn every_place_is_released_and_every_stop_gets_one(
        places in 1_usize..4,
        cases in prop::collection::vec(
            (0_u64..2000, 0_i32..3, 0_u64..1000, 0_u64..3000, prop::option::weighted(0.3, 0_u64..4000)),
            1..30,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let gate = StopGate::new(places);
            let longest = (CONTAINERS + SANDBOXES) * u32::try_from(cases.len()).unwrap();
            join_all(cases.iter().map(async |(at, priority, containers, sandboxes, left): &Case| {
                sleep(Duration::from_millis(*at)).await;
                let begun = Instant::now();
                let stop = async {
                    let mut stopping = gate.begin(Rank::of_priority(*priority), Urgency::default());
                    stopping.containers(async {
                        assert!(begun.elapsed() <= longest, "{:?}", begun.elapsed());
                        sleep(Duration::from_millis(*containers)).await;
                    }).await;
                    stopping.sandboxes(sleep(Duration::from_millis(*sandboxes))).await;
                };
                match left {
                    None => stop.await,
                    Some(after) => _ = tokio::time::timeout(Duration::from_millis(*after), stop).await,
                }
            })).await;
            let state = gate.state.lock();
            assert_eq!(state.free, places);
        });
    }
}
