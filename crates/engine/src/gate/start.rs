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
pub struct StartGate {
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
    pub fn new(bound: usize) -> Self {
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
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;
    use proptest::prelude::*;
    use tokio::time::sleep;

    use super::*;

    fn at(second: i64) -> StartPriority {
        StartPriority {
            failures: 0,
            rank: Rank::default(),
            seen: Timestamp::from_second(second).unwrap(),
            uid: "u".into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_seen_at_the_same_time_start_one_after_the_other() {
        let gate = StartGate::new(1);
        let order = &Mutex::new(Vec::new());
        let pods = ["a", "b", "c"].map(|uid| {
            let (gate, priority) = (gate.clone(), StartPriority { uid: uid.into(), ..at(0) });
            async move {
                for call in ["sandbox", "container"] {
                    let starting = async {
                        order.lock().push(format!("{uid} {call}"));
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    };
                    gate.enter(priority.clone()).await.during(starting).await;
                }
            }
        });
        futures::future::join_all(pods).await;
        // The second pod has entered before the first one's next call; the third waits for both.
        let calls = ["a sandbox", "b sandbox", "a container", "b container", "c sandbox", "c container"];
        assert_eq!(*order.lock(), calls);
    }

    fn of_priority(priority: i32) -> StartPriority {
        StartPriority {
            rank: Rank::of_priority(priority),
            uid: priority.to_string().as_str().into(),
            ..at(0)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_important_pod_being_prepared_enters_first_however_late() {
        let gate = StartGate::new(1);
        let order = &Mutex::new(Vec::new());
        // The more important a pod, the longer its preparation takes.
        let starts = [0, 3, 5, 7, 900].map(|priority| {
            let (gate, start) = (gate.clone(), of_priority(priority));
            let expected = gate.expect(start.clone());
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(priority.unsigned_abs()))).await;
                gate.enter(start).await.during(async { order.lock().push(priority) }).await;
                drop(expected);
            }
        });
        futures::future::join_all(starts).await;
        assert_eq!(*order.lock(), [900, 7, 5, 3, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_never_arrives_is_waited_for_once() {
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
    async fn waiting_for_a_place_counts_as_waiting_for_a_pod_that_never_arrives() {
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
        let mut critical =
            Box::pin(gate.enter(StartPriority { rank: Rank::of_priority(2_000_000_000), ..at(9) }));
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
    async fn a_start_that_hangs_releases_its_place() {
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
        assert_eq!(gate.state.lock().free, 1);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_keeps_no_permit() {
        let gate = StartGate::new(1);
        let first = gate.enter(at(0)).await;
        let mut leaver = Box::pin(gate.enter(at(1)));
        let mut stayer = Box::pin(gate.enter(at(2)));
        assert!(leaver.as_mut().now_or_never().is_none());
        assert!(stayer.as_mut().now_or_never().is_none());
        drop(leaver);
        drop(first);
        drop(stayer.now_or_never().expect("the one that stayed enters"));
        // A waiter dropped after its permit was granted releases it.
        let held = gate.enter(at(0)).await;
        let mut waiter = Box::pin(gate.enter(at(1)));
        assert!(waiter.as_mut().now_or_never().is_none());
        drop(held);
        drop(waiter);
        assert_eq!(gate.state.lock().free, 1);
        assert!(gate.enter(at(0)).now_or_never().is_some());
    }

    /// A pod whose starts fail after `hold` and are retried after ten seconds; reports each one.
    async fn failing(gate: &StartGate, priority: StartPriority, hold: Duration, tried: &Mutex<Vec<Instant>>) {
        for failures in 0.. {
            gate.enter(priority.clone().with_failures(failures)).await.during(sleep(hold)).await;
            tried.lock().push(Instant::now());
            sleep(Duration::from_secs(10)).await;
        }
    }

    fn nth(pod: usize, priority: i32, second: i64) -> StartPriority {
        StartPriority {
            rank: Rank::of_priority(priority),
            uid: format!("{pod:03}").as_str().into(),
            ..at(second)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failing_starts_of_old_important_pods_do_not_starve_a_young_pod() {
        let gate = StartGate::new(4);
        let tried = Mutex::default();
        let old = join_all((0..20).map(|pod| failing(&gate, nth(pod, 1000, 0), PATIENCE, &tried)));
        let young = async {
            // Each has been tried by now.
            sleep(Duration::from_secs(300)).await;
            let came = Instant::now();
            drop(gate.enter(nth(99, 0, 300)).await);
            came.elapsed()
        };
        tokio::select! {
            _ = old => unreachable!("they fail for ever"),
            () = sleep(Duration::from_secs(3600)) => panic!("it was not admitted"),
            waited = young => assert!(waited <= PATIENCE, "{waited:?}"),
        }
    }

    #[tokio::test]
    async fn the_retry_with_fewer_failures_goes_first() {
        let gate = StartGate::new(1);
        let held = gate.enter(at(0)).await;
        let mut often = Box::pin(gate.enter(nth(1, 2_000_000_000, 0).with_failures(3)));
        let mut once = Box::pin(gate.enter(nth(2, 7, 9).with_failures(1)));
        let mut never = Box::pin(gate.enter(nth(3, 0, 10)));
        for waiting in [&mut often, &mut once, &mut never] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(held);
        assert!(once.as_mut().now_or_never().is_none() && often.as_mut().now_or_never().is_none());
        drop(never.now_or_never().expect("the one that was not tried enters"));
        assert!(often.as_mut().now_or_never().is_none());
        drop(once.now_or_never().expect("then the one that failed once"));
        assert!(often.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_new_pods_does_not_starve_a_retry() {
        let gate = StartGate::new(1);
        let order = &Mutex::new(Vec::new());
        // Each takes a second, and two more arrive each second.
        let stream = join_all((0..300).map(async |pod| {
            sleep(Duration::from_millis(500) * u32::try_from(pod).unwrap()).await;
            gate.enter(nth(pod, 0, 0)).await.during(sleep(Duration::from_secs(1))).await;
            order.lock().push(pod);
        }));
        let failed = async {
            sleep(Duration::from_secs(1)).await;
            for failures in 1..4 {
                let came = Instant::now();
                drop(gate.enter(nth(999, 0, 0).with_failures(failures)).await);
                assert!(came.elapsed() <= AGED + Duration::from_secs(5), "{:?}", came.elapsed());
            }
        };
        tokio::join!(stream, failed);
        assert!(order.lock().is_sorted(), "the others kept their order");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However long starts take, whichever fail, whatever else arrives: every pod is started within a bound, and the
        /// number of concurrent starts never exceeds the places.
        #[test]
        fn no_pod_starves_and_the_bound_holds(
            bound in 1_usize..4,
            bad in prop::collection::vec((0_i32..3, 0_u64..40), 0..12),
            good in prop::collection::vec((0_i32..3, 0_u64..3000, 0_u64..1000), 0..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            runtime.unwrap().block_on(async {
                let gate = StartGate::new(bound);
                let tried: Vec<_> = bad.iter().map(|_| Mutex::default()).collect();
                let start = Instant::now();
                let failing = join_all(bad.iter().enumerate().zip(&tried).map(|((pod, (priority, hold)), tried)| {
                    failing(&gate, nth(pod, *priority, 0), Duration::from_secs(*hold), tried)
                }));
                let others = join_all(good.iter().enumerate().map(async |(pod, (priority, at, hold))| {
                    sleep(Duration::from_secs(*at)).await;
                    let came = Instant::now();
                    let permit = gate.enter(nth(100 + pod, *priority, 1)).await;
                    // The pods ahead of it come first; every fourth place, and each pod's first attempt, goes to a failing one.
                    let ahead = good.len() + good.len() / 3 + 2 * bad.len() + 1;
                    assert!(came.elapsed() <= PATIENCE * u32::try_from(ahead).unwrap(), "{:?}", came.elapsed());
                    permit.during(sleep(Duration::from_millis(*hold))).await;
                }));
                let hour = async {
                    let end = start + Duration::from_secs(3600);
                    while Instant::now() < end {
                        assert!(gate.state.lock().free <= bound);
                        sleep(Duration::from_secs(7)).await;
                    }
                };
                let all = async { tokio::join!(others, hour) };
                tokio::select! {
                    _ = failing, if !bad.is_empty() => unreachable!("they fail for ever"),
                    _ = all => {}
                    () = sleep(Duration::from_secs(7200)) => panic!("one of them was not admitted"),
                }
                // A call that hangs releases its place only after the limit; its pod then waits ten seconds and for a place.
                let longest = Duration::from_secs(40 + 10) + AGED + PATIENCE * u32::try_from(4 * bad.len() + good.len()).unwrap();
                for tried in &tried {
                    let last = tried.lock().last().copied().unwrap_or(start);
                    assert!(start + Duration::from_secs(3600) <= last + longest, "{:?}", last - start);
                }
            });
        }
    }
}
