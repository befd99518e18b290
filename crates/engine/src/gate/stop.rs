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
pub(crate) struct StopGate {
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
pub(crate) struct Urgency {
    needed: CancellationToken,
}

impl Urgency {
    /// Marks the stop as urgent: the node needs the pod's resources.
    pub(crate) fn raise(&self) {
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
#[path = "stop_tests.rs"]
mod tests;
