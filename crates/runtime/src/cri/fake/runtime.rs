//! The handle: state behind a lock, and the path of every call through the log and the fault plan.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hostlet_base::{PodUid, sleep_until};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::super::{CriError, Operation};
use super::calls::CallLog;
use super::clock::later;
use super::faults::{Failure, Fault, FaultPlan};
use super::restart::Restart;
use super::world::World;

/// 2026-01-01T00:00:00Z, an arbitrary fixed date.
const BASE_SECOND: i64 = 1_767_225_600;

/// An in-memory container runtime. Cheap to clone; clones share one runtime.
#[derive(Clone, Debug)]
pub struct FakeRuntime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    world: Mutex<World>,
    /// Wakes waiters in order when the state's revision changes.
    changed: Notify,
    /// Aborts the calls in flight.
    restarted: Notify,
    takes_turns: AtomicBool,
    faults: FaultPlan,
    calls: CallLog,
}

/// A call and its subject.
pub(super) struct Request {
    operation: Operation,
    pod: Option<PodUid>,
    target: String,
    /// A name to reserve at once, with its owner, for a call that takes effect later.
    reserves: Option<(String, String)>,
}

impl Request {
    pub(super) fn new(operation: Operation, pod: Option<PodUid>, target: &str) -> Self {
        Self { operation, pod, target: target.to_owned(), reserves: None }
    }

    pub(super) fn reserving(self, name: String, id: &str) -> Self {
        Self { reserves: Some((name, id.to_owned())), ..self }
    }
}

impl Default for FakeRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeRuntime {
    /// An empty runtime, at a fixed date.
    pub fn new() -> Self {
        Self::starting_at(Timestamp::from_second(BASE_SECOND).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// An empty runtime whose clock starts at `base` and follows tokio's clock.
    pub fn starting_at(base: Timestamp) -> Self {
        let inner = Inner {
            world: Mutex::new(World::new(base)),
            changed: Notify::new(),
            restarted: Notify::new(),
            takes_turns: AtomicBool::new(false),
            faults: FaultPlan::default(),
            calls: CallLog::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The fault plan.
    pub fn faults(&self) -> &FaultPlan {
        &self.inner.faults
    }

    pub(super) fn log(&self) -> &CallLog {
        &self.inner.calls
    }

    /// Reads or changes the current state, and wakes waiters on a change.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut World, Instant) -> T) -> T {
        let (result, is_changed) = {
            let mut world = self.inner.world.lock();
            let before = world.revision();
            let now = Instant::now();
            world.settle(now);
            let result = act(&mut world, now);
            // Effects scheduled for now are applied before returning.
            world.settle(now);
            (result, world.revision() != before)
        };
        if is_changed {
            self.inner.changed.notify_waiters();
        }
        result
    }

    /// Waits until `look` returns a value.
    pub(super) async fn wait<T>(&self, mut look: impl FnMut(&mut World, Instant) -> Option<T>) -> T {
        self.wait_until(None, &mut look).await
    }

    /// The same, also checking at `deadline`.
    pub(super) async fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut World, Instant) -> Option<T>,
    ) -> T {
        loop {
            // Registered before the check, so that a later change wakes us.
            let mut changed = pin!(self.inner.changed.notified());
            changed.as_mut().enable();
            let (found, due) = self.with(|world, now| (look(world, now), world.next_due()));
            if let Some(found) = found {
                return found;
            }
            let next = due.into_iter().chain(deadline).min();
            // Cancel-safe: both arms only wait, and the loop checks the state itself.
            tokio::select! {
                biased;
                () = sleep_until(next) => {}
                () = changed => {}
            }
        }
    }

    /// Performs a call: logs it, applies the fault plan, then `effect`.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        request: Request,
        effect: impl FnOnce(&mut World, Instant) -> Result<T, CriError> + Send + 'static,
    ) -> Result<T, CriError> {
        self.call_after(Duration::ZERO, request, effect).await
    }

    /// The same for a call that takes time even without a fault.
    pub(super) async fn call_after<T: Send + 'static>(
        &self,
        latency: Duration,
        request: Request,
        effect: impl FnOnce(&mut World, Instant) -> Result<T, CriError> + Send + 'static,
    ) -> Result<T, CriError> {
        let operation = request.operation;
        let fault = self.faults().next(operation, request.pod.as_ref());
        let _guard = self.log().begin(operation, request.pod.clone(), request.target.clone());
        // Registered before the check, so that no restart is missed.
        let mut restarted = pin!(self.inner.restarted.notified());
        restarted.as_mut().enable();
        // Cancel-safe: an aborted call has taken effect or never will.
        tokio::select! {
            biased;
            () = restarted => Err(Failure::Unreachable.of(operation)),
            answer = self.answer(latency, request, fault, effect) => answer,
        }
    }

    async fn answer<T: Send + 'static>(
        &self,
        latency: Duration,
        request: Request,
        fault: Option<Fault>,
        effect: impl FnOnce(&mut World, Instant) -> Result<T, CriError> + Send + 'static,
    ) -> Result<T, CriError> {
        let operation = request.operation;
        self.yield_if_set().await;
        self.with(|world, now| world.serves(operation, now))?;
        match fault {
            None => {}
            Some(Fault::Delay(delay)) => pause(delay).await,
            Some(Fault::Hang) => self.faults().hang().await,
            Some(Fault::Fail { after, failure }) => {
                pause(after).await;
                return Err(failure.of(operation));
            }
            Some(Fault::LateSuccess { answer_after, failure, lands_after }) => {
                self.with(|world, now| land(world, later(now, lands_after), request.reserves, effect));
                pause(answer_after).await;
                return Err(failure.of(operation));
            }
        }
        pause(latency).await;
        let answer = self.with(effect);
        self.yield_if_set().await;
        answer
    }

    /// Makes every call yield before and after its effect, like calls over a socket, so that it can be cancelled there.
    pub fn take_turns(&self) {
        self.inner.takes_turns.store(true, Ordering::Relaxed);
    }

    async fn yield_if_set(&self) {
        if self.inner.takes_turns.load(Ordering::Relaxed) {
            yield_now().await;
        }
    }

    /// Restarts the runtime; see [`Restart`]. Calls in flight are aborted, and delayed effects are lost.
    pub fn restart(&self, restart: Restart) {
        self.with(|world, now| world.restart(restart, now));
        self.inner.restarted.notify_waiters();
    }
}

/// Schedules `effect` at `at`. Its name is reserved from now on; nothing happens if the name is taken, as without the fault.
fn land<T>(
    world: &mut World,
    at: Instant,
    reserves: Option<(String, String)>,
    effect: impl FnOnce(&mut World, Instant) -> Result<T, CriError> + Send + 'static,
) {
    if let Some((name, id)) = &reserves
        && world.reserve(name, id).is_err()
    {
        return;
    }
    let effect = move |world: &mut World, now: Instant| {
        if let (Err(_), Some((_, id))) = (effect(world, now), reserves) {
            world.release_names(&id);
        }
    };
    world.schedule(at, Box::new(effect));
}

/// Sleeps unless the time is zero, because a zero sleep would still yield.
async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}
