//! The stop gate: bounds how many pods the runtime stops at once. Given a hundred at once, a runtime finishes none of them
//! for a long time, and every call is slower: each mount of a pod that is not yet removed adds to its work.
//!
//! A place is for work of the runtime, not for waiting: a pod that uses its grace period, or whose call hangs, releases its
//! place and continues without one. So no stop waits here for long, whatever the others do. Starts do not pass this gate.
//! Pods whose containers have terminated go before those that have not begun; within each group the more important pod
//! goes first, then the first to arrive. A pod whose resources the node needs now does not wait and takes no place.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::wait_times::WaitTimes;
use hostlet_pod::Rank;

/// How long stopping containers may hold a place: what a busy runtime needs to signal them and to notice their exit.
const CONTAINERS: Duration = Duration::from_millis(250);

/// How long stopping sandboxes may hold a place. They have no grace period, only networks to tear down.
const SANDBOXES: Duration = Duration::from_secs(2);

/// The gate. Cheap to clone; all clones share its state.
#[derive(Clone)]
pub struct StopGate {
    state: Arc<Mutex<State>>,
    waited: WaitTimes,
}

struct State {
    free: usize,
    queue: BTreeMap<StopOrder, oneshot::Sender<Place>>,
    arrivals: u64,
}

/// The order of waiters: by phase, then by priority, then by arrival.
type StopOrder = (StopPhase, Rank, u64);

/// The progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StopPhase {
    /// The containers have terminated.
    Sandboxes,
    /// The stop has not begun.
    Containers,
}

/// Whether the node needs the pod's resources now. Never reset; all clones share it.
#[derive(Clone, Debug, Default)]
pub struct Urgency {
    needed: CancellationToken,
}

impl Urgency {
    /// Marks the stop as urgent: the node needs the pod's resources.
    pub fn raise(&self) {
        self.needed.cancel();
    }
}

/// The right to have the runtime work on one stop; released when dropped.
struct Place {
    /// `None` once another place has replaced this one.
    state: Option<Arc<Mutex<State>>>,
}

/// One pod's stop as it passes the gate. It begins without a place.
pub(crate) struct PendingStop {
    gate: StopGate,
    rank: Rank,
    urgency: Urgency,
    place: Option<Place>,
}

impl Default for StopGate {
    /// Two places for each CPU of the host, at least four.
    fn default() -> Self {
        Self::new(available_parallelism().map_or(0, NonZeroUsize::get).saturating_mul(2).max(4))
    }
}

impl StopGate {
    /// A gate with this many places.
    fn new(places: usize) -> Self {
        let state = State { free: places, queue: BTreeMap::new(), arrivals: 0 };
        Self { state: Arc::new(Mutex::new(state)), waited: WaitTimes::default() }
    }

    /// How long stops have waited.
    pub(super) fn wait_times(&self) -> &WaitTimes {
        &self.waited
    }

    /// The number of stops that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.state.lock().queue.len() as u64
    }

    /// Begins the stop of a pod. `urgency` may be raised at any time, even while the pod waits.
    pub(crate) fn begin(&self, rank: Rank, urgency: Urgency) -> PendingStop {
        PendingStop { gate: self.clone(), rank, urgency, place: None }
    }

    fn join(&self, phase: StopPhase, rank: Rank) -> oneshot::Receiver<Place> {
        let (admit, admitted) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.arrivals += 1;
            let order = (phase, rank, state.arrivals);
            state.queue.insert(order, admit);
        }
        admit_next(&self.state);
        admitted
    }
}

/// Grants the free places to the first waiters.
fn admit_next(state: &Arc<Mutex<State>>) {
    loop {
        let admit = {
            let mut state = state.lock();
            if state.free == 0 {
                return;
            }
            let Some((_, admit)) = state.queue.pop_first() else { return };
            state.free -= 1;
            admit
        };
        if let Err(mut unclaimed) = admit.send(Place { state: Some(state.clone()) }) {
            // The waiter was dropped. The loop grants its place to the next one; dropping the place would lock again.
            unclaimed.state = None;
            state.lock().free += 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        state.lock().free += 1;
        admit_next(&state);
    }
}

impl PendingStop {
    /// Awaits `calls`, which stop containers. If they finish soon, the pod keeps its place for its sandboxes.
    pub(crate) async fn containers<T>(&mut self, calls: impl Future<Output = T>) -> T {
        self.enter(StopPhase::Containers).await;
        self.work(CONTAINERS, calls).await
    }

    /// Awaits `calls`, which stop sandboxes.
    pub(crate) async fn sandboxes<T>(&mut self, calls: impl Future<Output = T>) -> T {
        if self.place.is_none() {
            self.enter(StopPhase::Sandboxes).await;
        }
        self.work(SANDBOXES, calls).await
    }

    /// Waits for a place, unless the stop is urgent.
    async fn enter(&mut self, phase: StopPhase) {
        if self.urgency.needed.is_cancelled() {
            return;
        }
        let since = Instant::now();
        self.place = tokio::select! {
            biased;
            // Cancel-safe: a place already granted is released when dropped.
            place = self.gate.join(phase, self.rank) => place.ok(),
            // Cancel-safe: waits for a token.
            () = self.urgency.needed.cancelled() => None,
        };
        self.gate.waited.observe(since.elapsed());
    }

    async fn work<T>(&mut self, patience: Duration, calls: impl Future<Output = T>) -> T {
        let mut calls = Box::pin(calls);
        if let Ok(answer) = tokio::time::timeout(patience, &mut calls).await {
            return answer;
        }
        self.place = None;
        calls.await
    }
}

#[cfg(test)]
mod tests {
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
}
