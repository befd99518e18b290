//! The stop gate: bounds how many pods the runtime is stopping at once. Given a hundred at once it ends none of them for
//! long, and each call costs it more: what is mounted for pods that are about to go is in its way until they are gone.
//!
//! A place is for the runtime's work, never for waiting: a pod that takes its grace period, or whose call hangs, gives its
//! place back and goes on. So a stop waits here for a moment, whatever others do, and starts are not asked at all. Whose
//! containers have ended goes before those that have not begun.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// How long containers may keep a place while they stop: what a busy runtime takes to signal them and to see them end.
const CONTAINERS: Duration = Duration::from_millis(250);

/// How long sandboxes may. There is no grace in it, only networks to take down.
const SANDBOXES: Duration = Duration::from_secs(2);

/// The gate. Cheap to clone; all clones are one gate.
#[derive(Clone)]
pub struct StopGate {
    /// Given to those who wait in the order in which they came.
    places: Arc<Semaphore>,
    /// Of the pods that have not begun, the one that waits for a place has this, and the others wait for it.
    next: Arc<Mutex<()>>,
}

/// A pod's way through the gate, which begins without a place.
pub struct Stopping {
    gate: StopGate,
    place: Option<OwnedSemaphorePermit>,
}

impl Default for StopGate {
    /// Two places for each CPU of the host, at least four.
    fn default() -> Self {
        Self::new(available_parallelism().map_or(0, NonZeroUsize::get).saturating_mul(2).max(4))
    }
}

impl StopGate {
    /// A gate with so many places.
    fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), next: Arc::default() }
    }

    /// Begins the stop of a pod.
    pub fn begin(&self) -> Stopping {
        Stopping { gate: self.clone(), place: None }
    }

    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed; without a place, a stop goes on all the same.
        self.places.clone().acquire_owned().await.ok()
    }
}

impl Stopping {
    /// Stops containers by `calls`. If they end soon, the pod keeps its place for its sandboxes.
    pub async fn containers<T>(&mut self, calls: impl Future<Output = T>) -> T {
        let first_of_those_to_come = self.gate.next.lock().await;
        self.place = self.gate.enter().await;
        drop(first_of_those_to_come);
        self.work(CONTAINERS, calls).await
    }

    /// Stops sandboxes by `calls`.
    pub async fn sandboxes<T>(&mut self, calls: impl Future<Output = T>) -> T {
        if self.place.is_none() {
            self.place = self.gate.enter().await;
        }
        self.work(SANDBOXES, calls).await
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
    use std::sync::Mutex as Notes;

    use futures::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pods_that_end_at_once_are_stopped_one_after_the_other_and_whole() {
        let (gate, start) = (StopGate::new(2), Instant::now());
        let order = &Notes::new(Vec::new());
        join_all((0..4).map(async |pod| {
            let call = async || sleep(Duration::from_millis(100)).await;
            let mut stopping = gate.begin();
            stopping.containers(call()).await;
            stopping.sandboxes(call()).await;
            order.lock().unwrap().push((pod, start.elapsed().as_millis()));
        }))
        .await;
        assert_eq!(*order.lock().unwrap(), [(0, 200), (1, 200), (2, 400), (3, 400)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_takes_its_grace_period_holds_up_nobody_for_longer_than_a_moment() {
        let (gate, start) = (StopGate::new(1), Instant::now());
        let signalled = join_all((0..3).map(async |_| {
            let mut stopping = gate.begin();
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
    async fn whose_containers_have_ended_goes_before_those_that_have_not_begun() {
        let gate = StopGate::new(1);
        let order = &Notes::new(Vec::new());
        join_all((0..4).map(async |pod| {
            let mut stopping = gate.begin();
            let slow = async {
                order.lock().unwrap().push(format!("{pod} begins"));
                sleep(CONTAINERS + Duration::from_millis(10)).await;
            };
            stopping.containers(slow).await;
            stopping.sandboxes(async { order.lock().unwrap().push(format!("{pod} ends")) }).await;
        }))
        .await;
        // When the containers of the first ended, the third waited for a place already, and the fourth did not yet.
        let steps = ["0 begins", "1 begins", "2 begins", "0 ends", "3 begins", "1 ends", "2 ends", "3 ends"];
        assert_eq!(*order.lock().unwrap(), steps);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_that_hangs_gives_its_place_back() {
        let gate = StopGate::new(1);
        let (mut hung, mut other) = (gate.begin(), gate.begin());
        let start = Instant::now();
        tokio::select! {
            biased;
            () = hung.sandboxes(std::future::pending()) => {}
            () = other.containers(async {}) => {}
        }
        assert_eq!(start.elapsed(), SANDBOXES);
    }
}
