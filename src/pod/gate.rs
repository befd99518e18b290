//! The start gate: bounds how many sandbox and container starts the runtime works on at once, and lets the pod of the
//! highest priority go first, among equals the oldest.
//!
//! A runtime given a hundred starts at once makes every one of them slow; given a few at a time it finishes them one by
//! one in the same total time. Kills never pass here.
//!
//! A new daemon has all its pods to start at once, and which of them comes here first is chance: one has a dead sandbox
//! to stop before, the other has not. So a start waits a moment for those of more important pods that are on their way.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;

use super::pod_uid;
use crate::types::{CONFIG_SEEN_ANNOTATION, PodUid};

/// How long a start may keep others waiting. A runtime that is merely slow is faster.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a start waits for those of more important pods that are on their way. Pods that take longer, for a volume
/// perhaps, are not waited for again.
const GATHERING: Duration = Duration::from_secs(2);

/// The gate. Cheap to clone; all clones are one gate.
#[derive(Clone)]
pub struct StartGate {
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    queue: BinaryHeap<Reverse<Waiter>>,
    arrivals: u64,
    /// The pods that are being made ready for their first start.
    on_the_way: BTreeSet<Turn>,
}

impl State {
    /// The first in line, if there is a place for it and nobody more important is on the way.
    fn next(&mut self) -> Option<Waiter> {
        let Reverse(first) = self.queue.peek()?;
        let is_held = self.on_the_way.first().is_some_and(|expected| expected.priority < first.turn.priority);
        if self.free == 0 || is_held {
            return None;
        }
        self.free -= 1;
        self.queue.pop().map(|Reverse(waiter)| waiter)
    }

    /// Expects nobody more important than `priority` any more, if only they keep the places free.
    fn give_up(&mut self, priority: Reverse<i32>) {
        if self.free > 0 {
            self.on_the_way.retain(|expected| expected.priority >= priority);
        }
    }
}

/// A pod's place in the line: the same for all its calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// The pod's priority; the higher goes first.
    pub priority: Reverse<i32>,
    /// When the pod was first seen; the older goes first.
    pub seen: Timestamp,
    /// Which pod it is. Many are seen at the same moment, as files or in a list; without this all their sandboxes would
    /// be made before the first of their containers.
    pub uid: PodUid,
}

impl Turn {
    /// A pod's place: at boot, critical pods come up first.
    pub fn of(pod: &Pod) -> Self {
        let annotation = pod.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SEEN_ANNOTATION));
        Self {
            priority: Reverse(pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)),
            seen: annotation.and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH),
            uid: pod_uid(pod),
        }
    }
}

/// A pod is being made ready for its first start. Ends when it comes to the gate or, if it does not, when this is dropped.
#[must_use]
pub struct OnTheWay {
    turn: Turn,
    state: Arc<Mutex<State>>,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        if lock(&self.state).on_the_way.remove(&self.turn) {
            admit_next(&self.state);
        }
    }
}

struct Waiter {
    turn: Turn,
    /// Among the calls of a pod, the order of arrival decides.
    arrival: u64,
    admit: oneshot::Sender<Permit>,
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Waiter {}
impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.turn, self.arrival).cmp(&(&other.turn, other.arrival))
    }
}

/// The right to have the runtime work on one start; given back when dropped.
pub struct Permit {
    /// None once another permit stands for this one.
    state: Option<Arc<Mutex<State>>>,
}

impl Permit {
    /// Makes `call`, the start, and then gives the permit back. A call that hangs gives it back after 15 s, and goes on: it
    /// holds up its own pod, and no other.
    pub async fn during<T>(self, call: impl Future<Output = T>) -> T {
        tokio::pin!(call);
        match tokio::time::timeout(PATIENCE, &mut call).await {
            Ok(answer) => answer,
            Err(_) => {
                drop(self);
                call.await
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Every statement under the lock leaves the state valid.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StartGate {
    /// A gate for `bound` starts at once; at least one.
    pub fn new(bound: usize) -> Self {
        let state =
            State { free: bound.max(1), queue: BinaryHeap::new(), arrivals: 0, on_the_way: BTreeSet::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A pod will come here: starts of less important pods wait for it, 2 s at most.
    pub fn expect(&self, turn: Turn) -> OnTheWay {
        lock(&self.state).on_the_way.insert(turn.clone());
        OnTheWay { turn, state: self.state.clone() }
    }

    /// Waits for the right to start something of a pod. Dropping the future leaves the
    /// line; a permit that was on its way is given back.
    pub async fn enter(&self, turn: Turn) -> Permit {
        let (admit, mut admitted) = oneshot::channel();
        let priority = turn.priority;
        {
            let mut state = lock(&self.state);
            state.on_the_way.remove(&turn);
            state.arrivals += 1;
            let arrival = state.arrivals;
            state.queue.push(Reverse(Waiter { turn, arrival, admit }));
        }
        admit_next(&self.state);
        loop {
            match tokio::time::timeout(GATHERING, &mut admitted).await {
                Ok(Ok(permit)) => return permit,
                // Unreachable: the queue lives as long as this gate. A permit beyond the bound is the harmless answer.
                Ok(Err(_)) => {
                    let mut state = lock(&self.state);
                    state.free = state.free.saturating_sub(1);
                    return Permit { state: Some(self.state.clone()) };
                }
                Err(_) => {
                    lock(&self.state).give_up(priority);
                    admit_next(&self.state);
                }
            }
        }
    }
}

/// Gives the free places to those first in line.
fn admit_next(state: &Arc<Mutex<State>>) {
    loop {
        let Some(waiter) = lock(state).next() else { return };
        if let Err(mut refused) = waiter.admit.send(Permit { state: Some(state.clone()) }) {
            // The waiter left the line: its place goes to the next one, here and not by being dropped.
            refused.state = None;
            lock(state).free += 1;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        lock(&state).free += 1;
        admit_next(&state);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    fn at(second: i64) -> Turn {
        Turn { priority: Reverse(0), seen: Timestamp::from_second(second).unwrap(), uid: "u".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn of_pods_seen_at_the_same_time_one_is_started_whole_before_the_next() {
        let gate = StartGate::new(1);
        let order = &Mutex::new(Vec::new());
        let pods = ["a", "b", "c"].map(|uid| {
            let (gate, turn) = (gate.clone(), Turn { uid: uid.into(), ..at(0) });
            async move {
                for call in ["sandbox", "container"] {
                    let starting = async {
                        order.lock().unwrap().push(format!("{uid} {call}"));
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    };
                    gate.enter(turn.clone()).await.during(starting).await;
                }
            }
        });
        futures::future::join_all(pods).await;
        // The second has entered before the first can ask again; the third waits for both.
        let calls = ["a sandbox", "b sandbox", "a container", "b container", "c sandbox", "c container"];
        assert_eq!(*order.lock().unwrap(), calls);
    }

    fn of_priority(priority: i32) -> Turn {
        Turn { priority: Reverse(priority), uid: priority.to_string().as_str().into(), ..at(0) }
    }

    #[tokio::test(start_paused = true)]
    async fn of_pods_on_their_way_the_most_important_enters_first_however_late_it_comes() {
        let gate = StartGate::new(1);
        let order = &Mutex::new(Vec::new());
        // Each is on the way for longer, the more important it is.
        let starts = [0, 3, 5, 7, 900].map(|priority| {
            let (gate, turn) = (gate.clone(), of_priority(priority));
            let expected = gate.expect(turn.clone());
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(priority.unsigned_abs()))).await;
                gate.enter(turn).await.during(async { order.lock().unwrap().push(priority) }).await;
                drop(expected);
            }
        });
        futures::future::join_all(starts).await;
        assert_eq!(*order.lock().unwrap(), [900, 7, 5, 3, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_does_not_come_is_not_waited_for_again() {
        let gate = StartGate::new(1);
        let start = Instant::now();
        let turned_back = gate.expect(of_priority(9));
        let mut waiting = Box::pin(gate.enter(of_priority(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(turned_back);
        drop(waiting.now_or_never().expect("nobody is on the way any more"));

        let stuck = gate.expect(of_priority(9));
        drop(gate.enter(of_priority(9)).now_or_never().expect("nobody is more important"));
        let stuck_too = gate.expect(of_priority(8));
        drop(gate.enter(of_priority(1)).await);
        assert_eq!(start.elapsed(), GATHERING);
        assert!(gate.enter(of_priority(1)).now_or_never().is_some());
        drop((stuck, stuck_too));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_waited_for_a_place_waits_no_longer_for_a_pod_that_does_not_come() {
        let gate = StartGate::new(1);
        let busy = gate.enter(of_priority(1)).await;
        let mut waiting = Box::pin(gate.enter(of_priority(1)));
        let full = tokio::time::timeout(GATHERING + GATHERING / 2, &mut waiting).await;
        assert!(full.is_err(), "there was a place");
        let stuck = gate.expect(of_priority(9));
        drop(busy);
        assert!(waiting.as_mut().now_or_never().is_none(), "the more important one goes first");
        let start = Instant::now();
        let late = tokio::time::timeout(10 * GATHERING, waiting).await;
        assert!(late.is_ok() && start.elapsed() <= GATHERING);
        drop(stuck);
    }

    #[tokio::test]
    async fn a_higher_priority_goes_before_an_older_pod() {
        let gate = StartGate::new(1);
        let first = gate.enter(at(0)).await;
        let mut old = Box::pin(gate.enter(at(1)));
        let mut critical = Box::pin(gate.enter(Turn { priority: Reverse(2_000_000_000), ..at(9) }));
        assert!(old.as_mut().now_or_never().is_none());
        assert!(critical.as_mut().now_or_never().is_none());
        drop(first);
        assert!(old.as_mut().now_or_never().is_none());
        drop(critical.now_or_never().expect("the critical pod enters"));
        assert!(old.now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_bound_holds_and_the_oldest_pod_goes_first() {
        let gate = StartGate::new(2);
        let first = gate.enter(at(9)).await;
        let _second = gate.enter(at(9)).await;
        let mut young = Box::pin(gate.enter(at(5)));
        let mut old = Box::pin(gate.enter(at(1)));
        let mut old_too = Box::pin(gate.enter(at(1)));
        assert!(young.as_mut().now_or_never().is_none());
        assert!(old.as_mut().now_or_never().is_none());
        assert!(old_too.as_mut().now_or_never().is_none());
        drop(first);
        assert!(young.as_mut().now_or_never().is_none());
        assert!(old_too.as_mut().now_or_never().is_none());
        let old = old.now_or_never().expect("the oldest enters");
        drop(old);
        assert!(young.as_mut().now_or_never().is_none());
        drop(old_too.now_or_never().expect("then the other of its age"));
        assert!(young.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_hangs_gives_its_turn_back() {
        let gate = StartGate::new(1);
        let (answer, hung) = oneshot::channel::<&str>();
        let mut hanging = Box::pin(async { gate.enter(at(0)).await.during(hung).await });
        let next = async { gate.enter(at(1)).await.during(std::future::ready("done")).await };
        assert!(hanging.as_mut().now_or_never().is_none());
        tokio::select! {
            _ = &mut hanging => panic!("nobody answered it"),
            done = next => assert_eq!(done, "done"),
        }
        answer.send("late").unwrap();
        assert_eq!(hanging.await, Ok("late"));
        assert_eq!(lock(&gate.state).free, 1);
    }

    #[tokio::test]
    async fn who_leaves_the_line_takes_no_permit_along() {
        let gate = StartGate::new(1);
        let first = gate.enter(at(0)).await;
        let mut leaver = Box::pin(gate.enter(at(1)));
        let mut stayer = Box::pin(gate.enter(at(2)));
        assert!(leaver.as_mut().now_or_never().is_none());
        assert!(stayer.as_mut().now_or_never().is_none());
        drop(leaver);
        drop(first);
        drop(stayer.now_or_never().expect("the one that stayed enters"));
        // A waiter dropped with its permit already on the way gives it back.
        let held = gate.enter(at(0)).await;
        let mut waiter = Box::pin(gate.enter(at(1)));
        assert!(waiter.as_mut().now_or_never().is_none());
        drop(held);
        drop(waiter);
        assert_eq!(lock(&gate.state).free, 1);
        assert!(gate.enter(at(0)).now_or_never().is_some());
    }
}
