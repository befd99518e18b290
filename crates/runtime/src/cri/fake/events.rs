//! Event streams, with the ways in which hints get lost.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use hostlet_base::PodUid;

use super::super::{CriError, EventStream, Operation, RuntimeHint};
use super::faults::Failure;
use super::runtime::{FakeRuntime, Request};
use super::world::World;

/// How the runtime sends events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EventMode {
    /// Each change once, by pod, like the CRI's events.
    #[default]
    Pods,
    /// Each change once, by ID, like containerd's events.
    Objects,
    /// Each change twice.
    Duplicated,
    /// Each change once, by pod, with this delay.
    Late(Duration),
    /// No change is sent.
    Lost,
    /// The runtime has no events.
    Unimplemented,
}

/// The log of changes.
#[derive(Debug, Default)]
pub(super) struct Hub {
    mode: EventMode,
    hints: Vec<RuntimeHint>,
    /// Number of hints before these that were forgotten.
    forgotten: usize,
    /// Incremented by each disconnect; a subscription belongs to one epoch.
    epoch: u64,
}

/// Read position of a subscription.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    next: usize,
    epoch: u64,
}

impl Hub {
    pub(super) fn set_mode(&mut self, mode: EventMode) {
        self.mode = mode;
    }

    pub(super) fn mode(&self) -> EventMode {
        self.mode
    }

    pub(super) fn publish(&mut self, pod: &PodUid, object: &str) {
        let by_pod = || RuntimeHint::Pod(pod.clone());
        match self.mode {
            EventMode::Pods | EventMode::Late(_) => self.hints.push(by_pod()),
            EventMode::Objects => self.hints.push(RuntimeHint::Object(object.to_owned())),
            EventMode::Duplicated => self.hints.extend([by_pod(), by_pod()]),
            EventMode::Lost | EventMode::Unimplemented => {}
        }
    }

    /// Forgets all hints. A subscriber that has not read one misses it.
    pub(super) fn forget(&mut self) {
        self.forgotten += self.hints.len();
        self.hints.clear();
    }

    /// Ends all subscriptions.
    pub(super) fn hang_up(&mut self) {
        self.epoch += 1;
    }

    /// A subscription to changes from now on.
    pub(super) fn subscribe(&self) -> Cursor {
        Cursor { next: self.forgotten + self.hints.len(), epoch: self.epoch }
    }

    /// The next hint, if there is one.
    pub(super) fn read(&self, cursor: &mut Cursor) -> Option<Result<RuntimeHint, CriError>> {
        if cursor.epoch != self.epoch {
            return Some(Err(Failure::Unreachable.of(Operation::ContainerEvents)));
        }
        let next = cursor.next.max(self.forgotten);
        let hint = self.hints.get(next - self.forgotten)?.clone();
        cursor.next = next + 1;
        Some(Ok(hint))
    }
}

/// State of a subscriber.
enum Subscription {
    Unopened,
    At(Cursor),
    Ended,
}

/// Hints from the first poll on. Nothing runs in the background: a poll catches up with everything due.
pub(super) fn stream(runtime: FakeRuntime) -> EventStream {
    stream::unfold((runtime, Subscription::Unopened), |(runtime, subscription)| async move {
        let mut cursor = match subscription {
            Subscription::Ended => return None,
            Subscription::At(cursor) => cursor,
            Subscription::Unopened => match open(&runtime).await {
                Ok(cursor) => cursor,
                Err(error) => return Some((Err(error), (runtime, Subscription::Ended))),
            },
        };
        let item = runtime.wait(|world, _| world.hub.read(&mut cursor)).await;
        let next = if item.is_ok() { Subscription::At(cursor) } else { Subscription::Ended };
        Some((item, (runtime, next)))
    })
    .boxed()
}

async fn open(runtime: &FakeRuntime) -> Result<Cursor, CriError> {
    let operation = Operation::ContainerEvents;
    let request = Request::new(operation, None, "");
    let subscribe = move |world: &mut World, _| match world.hub.mode() {
        EventMode::Unimplemented => Err(CriError::Unimplemented { operation }),
        EventMode::Pods
        | EventMode::Objects
        | EventMode::Duplicated
        | EventMode::Late(_)
        | EventMode::Lost => Ok(world.hub.subscribe()),
    };
    runtime.call(request, subscribe).await
}
