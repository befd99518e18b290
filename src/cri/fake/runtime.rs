//! The handle: state behind a lock, and the way every call takes through the log and the fault plan.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::{CriError, Operation};
use super::calls::CallLog;
use super::clock::later;
use super::faults::{Fault, FaultPlan};
use super::world::World;
use crate::types::PodUid;

/// 2026-01-01T00:00:00Z: any fixed date will do.
const BASE_SECOND: i64 = 1_767_225_600;

/// A container runtime in memory. Cheap to clone; all clones are one runtime.
#[derive(Clone, Debug)]
pub struct FakeRuntime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    world: Mutex<World>,
    /// The world's revision, for those who wait.
    revision: watch::Sender<u64>,
    faults: FaultPlan,
    calls: CallLog,
}

/// What a call is and what it is about.
pub(super) struct Request {
    operation: Operation,
    pod: Option<PodUid>,
    target: String,
    /// A name to be reserved at once, and for whom, when the call takes effect only later.
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

    /// An empty runtime whose clock shows `base` now and goes on as tokio's time does.
    pub fn starting_at(base: Timestamp) -> Self {
        let inner = Inner {
            world: Mutex::new(World::new(base)),
            revision: watch::Sender::new(0),
            faults: FaultPlan::default(),
            calls: CallLog::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The faults to come.
    pub fn faults(&self) -> &FaultPlan {
        &self.inner.faults
    }

    pub(super) fn log(&self) -> &CallLog {
        &self.inner.calls
    }

    /// Looks at or changes the world as it is now, and wakes those who wait if it changed.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut World, Instant) -> T) -> T {
        let (result, revision) = {
            let mut world = self.inner.world.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            world.settle(now);
            let result = act(&mut world, now);
            // What the act scheduled for now is there when it returns.
            world.settle(now);
            (result, world.revision())
        };
        self.inner.revision.send_if_modified(|known| std::mem::replace(known, revision) != revision);
        result
    }

    /// Waits until `look` sees what it looks for.
    pub(super) async fn wait<T>(&self, mut look: impl FnMut(&mut World, Instant) -> Option<T>) -> T {
        self.wait_until(None, &mut look).await
    }

    /// The same, looking again at `deadline` too.
    pub(super) async fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut World, Instant) -> Option<T>,
    ) -> T {
        let mut revision = self.inner.revision.subscribe();
        loop {
            // Seen before looking, so that a change after the look wakes us.
            revision.mark_unchanged();
            let (found, due) = self.with(|world, now| (look(world, now), world.next_due()));
            if let Some(found) = found {
                return found;
            }
            let next = due.into_iter().chain(deadline).min();
            let timer = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Both arms only wait: dropping either loses nothing, the loop looks at the world itself.
            tokio::select! {
                () = timer => {}
                _ = revision.changed() => {}
            }
        }
    }

    /// One call: logged, subjected to the fault plan, then `effect`.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        request: Request,
        effect: impl FnOnce(&mut World, Instant) -> Result<T, CriError> + Send + 'static,
    ) -> Result<T, CriError> {
        self.call_after(Duration::ZERO, request, effect).await
    }

    /// The same for a call that takes its time even when nothing goes wrong.
    pub(super) async fn call_after<T: Send + 'static>(
        &self,
        latency: Duration,
        request: Request,
        effect: impl FnOnce(&mut World, Instant) -> Result<T, CriError> + Send + 'static,
    ) -> Result<T, CriError> {
        let Request { operation, pod, target, reserves } = request;
        let fault = self.faults().next(operation, pod.as_ref());
        let _guard = self.log().begin(operation, pod, target);
        match fault {
            None => {}
            Some(Fault::Delay(delay)) => pause(delay).await,
            Some(Fault::Hang) => self.faults().hang().await,
            Some(Fault::Fail { after, failure }) => {
                pause(after).await;
                return Err(failure.of(operation));
            }
            Some(Fault::LateSuccess { answer_after, failure, lands_after }) => {
                self.with(|world, now| land(world, later(now, lands_after), reserves, effect));
                pause(answer_after).await;
                return Err(failure.of(operation));
            }
        }
        pause(latency).await;
        self.with(effect)
    }
}

/// Has `effect` happen at `at` without anybody waiting for it. The name it needs is its own from now on; when somebody
/// else has that name already, nothing happens, as it would without the fault.
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

/// Sleeps, or not at all for no time: a sleep of zero would still yield.
async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}
