//! The start gate: bounds how many sandbox and container starts the runtime works on at once, and lets the pod of the
//! highest priority go first, among equals the oldest.
//!
//! A runtime given a hundred starts at once makes every one of them slow; given a few at a time it finishes them one by
//! one in the same total time. Kills never pass here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

/// How long a start may keep others waiting. A runtime that is merely slow is faster.
const PATIENCE: Duration = Duration::from_secs(15);

/// The gate. Cheap to clone; all clones are one gate.
#[derive(Clone)]
pub struct StartGate {
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    queue: BinaryHeap<Reverse<Waiter>>,
    arrivals: u64,
}

/// A pod's place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// The pod's priority; the higher goes first.
    pub priority: Reverse<i32>,
    /// When the pod was first seen; the older goes first.
    pub seen: Timestamp,
}

struct Waiter {
    turn: Turn,
    /// Among pods seen at the same time, the order of arrival decides.
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
        (self.turn, self.arrival).cmp(&(other.turn, other.arrival))
    }
}

/// The right to have the runtime work on one start; given back when dropped.
struct Permit {
    /// None once another permit stands for this one.
    state: Option<Arc<Mutex<State>>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Every statement under the lock leaves the state valid.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StartGate {
    /// A gate for `bound` starts at once; at least one.
    pub fn new(bound: usize) -> Self {
        let state = State { free: bound.max(1), queue: BinaryHeap::new(), arrivals: 0 };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes `call`, a start of a pod, when its turn comes. A call that hangs gives its turn
    /// back after 15 s, and goes on: it holds up its own pod, and no other.
    pub async fn pass<T>(&self, turn: Turn, call: impl Future<Output = T>) -> T {
        let permit = self.enter(turn).await;
        tokio::pin!(call);
        match tokio::time::timeout(PATIENCE, &mut call).await {
            Ok(answer) => answer,
            Err(_) => {
                drop(permit);
                call.await
            }
        }
    }

    /// Waits for the right to start something of a pod. Dropping the future leaves the
    /// line; a permit that was on its way is given back.
    async fn enter(&self, turn: Turn) -> Permit {
        let (admit, admitted) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.free > 0 {
                state.free -= 1;
                return Permit { state: Some(self.state.clone()) };
            }
            state.arrivals += 1;
            let arrival = state.arrivals;
            state.queue.push(Reverse(Waiter { turn, arrival, admit }));
        }
        match admitted.await {
            Ok(permit) => permit,
            // Unreachable: the queue lives as long as this gate. A permit beyond the bound is the harmless answer.
            Err(_) => {
                let mut state = lock(&self.state);
                state.free = state.free.saturating_sub(1);
                Permit { state: Some(self.state.clone()) }
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        loop {
            let next = {
                let mut state = lock(&state);
                let next = state.queue.pop();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(Reverse(waiter)) = next else { return };
            match waiter.admit.send(Permit { state: Some(state.clone()) }) {
                Ok(()) => return,
                // The waiter left the line: its permit goes to the next one, here and not by being dropped.
                Err(mut refused) => refused.state = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn at(second: i64) -> Turn {
        Turn { priority: Reverse(0), seen: Timestamp::from_second(second).unwrap() }
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
        let mut hanging = Box::pin(gate.pass(at(0), hung));
        assert!(hanging.as_mut().now_or_never().is_none());
        tokio::select! {
            _ = &mut hanging => panic!("nobody answered it"),
            done = gate.pass(at(1), std::future::ready("done")) => assert_eq!(done, "done"),
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
