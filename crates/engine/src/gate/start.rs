//! The start gate: bounds how many sandbox and container starts the runtime works on at once. Pods of higher priority go
//! first, and older pods before younger ones of the same priority.
//!
//! A runtime given a hundred starts at once makes every one of them slow; given a few at a time it finishes them one by
//! one in the same total time. Kills never pass this gate.
//!
//! A start that failed is retried behind those that have not failed. Otherwise a few old pods whose starts take long to
//! fail would hold all places, and the pod that would repair the cause (a network DaemonSet) would never start. So that
//! retries do not starve either, every fourth place goes to the retry that has waited longest.
//!
//! When the daemon starts, all its pods need starting at once, in a random order: one first stops a dead sandbox, another
//! does not. So a start waits a moment for more important pods that are still being prepared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::wait_times::WaitTimes;
use hostlet_base::PodUid;
use hostlet_pod::{AdmittedPod, Rank};

/// How long a start may hold its place. Even a slow runtime needs less, unless the call hangs.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a start waits for more important pods that are being prepared. A pod that takes longer, perhaps for a volume,
/// is not waited for again.
const GATHERING: Duration = Duration::from_secs(2);

/// How long a retry waits behind all other starts before it may be preferred.
const AGED: Duration = Duration::from_secs(30);

/// One of this many places goes to a retry that has waited that long.
const AGED_SHARE: u32 = 4;

/// The gate. Cheap to clone; all clones share its state.
#[derive(Clone)]
pub(crate) struct StartGate {
    state: Arc<Mutex<State>>,
    waited: WaitTimes,
}

struct State {
    free: usize,
    /// Ordered by priority; calls of the same pod by arrival.
    queue: BTreeMap<(StartPriority, u64), Waiter>,
    arrivals: u64,
    /// Places granted since one went to a retry that had waited long.
    granted: u32,
    /// The pods that are being prepared for their first start.
    pending: BTreeSet<StartPriority>,
}

impl State {
    /// The next waiter, if there is a free place and no more important pod is being prepared.
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        if self.free == 0 {
            return None;
        }
        let aged = self.aged(Instant::now());
        let next = aged.as_ref().or_else(|| self.queue.keys().next())?;
        if self.pending.first().is_some_and(|expected| expected.rank < next.0.rank) {
            return None;
        }
        let (next, is_aged) = (next.clone(), aged.is_some());
        self.granted = if is_aged { 0 } else { self.granted.saturating_add(1) };
        self.free -= 1;
        self.queue.remove(&next).map(|waiter| waiter.admit)
    }

    /// The retry that has waited longest, if it has waited long enough and the next place is for a retry.
    fn aged(&self, now: Instant) -> Option<(StartPriority, u64)> {
        if self.granted + 1 < AGED_SHARE {
            return None;
        }
        let failed = self.queue.iter().filter(|((priority, _), _)| priority.failures > 0);
        let aged = failed.filter(|(_, waiter)| now.saturating_duration_since(waiter.since) >= AGED);
        aged.min_by_key(|((_, arrival), _)| *arrival).map(|(place, _)| place.clone())
    }

    /// Stops waiting for pods more important than `rank`, if only they keep places free.
    fn give_up(&mut self, rank: Rank) {
        if self.free > 0 {
            self.pending.retain(|expected| expected.rank >= rank);
        }
    }
}

/// A pod's place in the queue: the same for all its calls, until one fails.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StartPriority {
    /// Failed starts since the last success; fewer go first.
    pub(crate) failures: u32,
    /// The pod's priority.
    pub(crate) rank: Rank,
    /// When the pod was first seen; the older goes first.
    pub(crate) seen: Timestamp,
    /// The pod. Many pods are first seen at the same moment, as files or in a list; without this tie-break all their
    /// sandboxes would be created before the first of their containers.
    pub(crate) uid: PodUid,
}

impl StartPriority {
    /// The priority of a pod whose starts have not failed. Critical pods go first.
    pub(crate) fn of(pod: &AdmittedPod) -> Self {
        Self {
            failures: 0,
            rank: pod.rank,
            seen: pod.seen_at.unwrap_or(Timestamp::UNIX_EPOCH),
            uid: pod.reference.uid.clone(),
        }
    }

    /// The priority of a pod with this many failed starts since the last success.
    pub(crate) fn with_failures(self, failures: u32) -> Self {
        Self { failures, ..self }
    }
}

/// Announces that a pod is being prepared for its first start. Expires when the pod enters the gate, or when dropped.
#[must_use]
pub(crate) struct PendingStart {
    priority: StartPriority,
    state: Arc<Mutex<State>>,
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        if self.state.lock().pending.remove(&self.priority) {
            admit_next(&self.state);
        }
    }
}

struct Waiter {
    since: Instant,
    admit: oneshot::Sender<Permit>,
}

/// The right to have the runtime work on one start; released when dropped.
pub(crate) struct Permit {
    /// `None` once another permit has replaced this one.
    state: Option<Arc<Mutex<State>>>,
}

impl Permit {
    /// Awaits `call`, the start, and then releases the permit. If the call hangs, the permit is released after 15 s and the
    /// call continues and blocks only its own pod.
    pub(crate) async fn during<T>(self, call: impl Future<Output = T>) -> T {
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

impl StartGate {
    /// A gate for `bound` concurrent starts; at least one.
    pub(crate) fn new(bound: usize) -> Self {
        let state = State {
            free: bound.max(1),
            queue: BTreeMap::new(),
            arrivals: 0,
            granted: 0,
            pending: BTreeSet::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), waited: WaitTimes::default() }
    }

    /// How long starts have waited.
    pub(super) fn wait_times(&self) -> &WaitTimes {
        &self.waited
    }

    /// The number of starts that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.state.lock().queue.len() as u64
    }

    /// Announces a pod: starts of less important pods wait for it, 2 s at most.
    pub(crate) fn expect(&self, priority: StartPriority) -> PendingStart {
        self.state.lock().pending.insert(priority.clone());
        PendingStart { priority, state: self.state.clone() }
    }

    /// Waits for the right to start something of a pod. Cancel-safe: dropping the future leaves the queue and releases a
    /// permit that was already granted.
    pub(crate) async fn enter(&self, priority: StartPriority) -> Permit {
        let (admit, mut admitted) = oneshot::channel();
        let (rank, since) = (priority.rank, Instant::now());
        {
            let mut state = self.state.lock();
            state.pending.remove(&priority);
            state.arrivals += 1;
            let arrival = state.arrivals;
            state.queue.insert((priority, arrival), Waiter { since, admit });
        }
        admit_next(&self.state);
        loop {
            match tokio::time::timeout(GATHERING, &mut admitted).await {
                Ok(Ok(permit)) => {
                    self.waited.observe(since.elapsed());
                    return permit;
                }
                // Unreachable: the queue lives as long as this gate. One permit beyond the bound does no harm.
                Ok(Err(_)) => {
                    let mut state = self.state.lock();
                    state.free = state.free.saturating_sub(1);
                    return Permit { state: Some(self.state.clone()) };
                }
                Err(_) => {
                    self.state.lock().give_up(rank);
                    admit_next(&self.state);
                }
            }
        }
    }
}

/// Grants the free places to the first waiters.
fn admit_next(state: &Arc<Mutex<State>>) {
    loop {
        let Some(admit) = state.lock().next() else { return };
        if let Err(mut unclaimed) = admit.send(Permit { state: Some(state.clone()) }) {
            // The waiter was dropped. The loop grants its place to the next one; dropping the permit would lock again.
            unclaimed.state = None;
            state.lock().free += 1;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        state.lock().free += 1;
        admit_next(&state);
    }
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
