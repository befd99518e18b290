//! Following objects of one kind: kube's watcher, started anew or resumed after whatever goes wrong, with pauses that grow
//! and that heed the server's own wish. Never gives up; decides nothing about the objects.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::StreamExt;
use kube::Resource;
use kube::runtime::watcher::{self, Config, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::error::{Refusal, message, refusal};
use super::objects::{Objects, Wire};
use crate::types::{Backoff, BackoffPolicy};

/// Pauses after failures. The first ones are short: a node is often refused an object of a pod that was bound to it a moment
/// ago, until the server's authorizer has heard of that too.
const PAUSES: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(50),
    max: Duration::from_secs(30),
    reset_after: Duration::from_secs(120),
};

/// Why the objects cannot be read at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What it means.
    pub refusal: Refusal,
    /// In the server's own words, if it had any.
    pub message: String,
}

/// Tells of the objects that `config` selects and of their changes, and of what keeps them from being read, until `tell`
/// breaks it off. After trouble it goes on from where it was if the server still knows, else from a new listing.
pub async fn follow<K>(
    api: Objects<K>,
    config: Config,
    mut tell: impl FnMut(Result<Event<K>, Trouble>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = None;
    loop {
        // Boxed: most of what it needs is for the short time in which an event is read.
        let mut events = watcher(api.clone(), config.clone()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                        backoff = None;
                    }
                    if tell(Ok(unwrapped(event))).is_break() {
                        return;
                    }
                }
                Err(error) => {
                    let is_lost = is_place_lost(&error);
                    let trouble = trouble(&error);
                    let now = Instant::now();
                    let next = Backoff::next(backoff, &PAUSES, now, now);
                    backoff = Some(next);
                    // Not all in step: after a failure of the server everybody comes at once.
                    let pause = next.delay.mul_f64(rand::random_range(0.5..1.0));
                    let wished = trouble.refusal.wished_pause();
                    if tell(Err(trouble)).is_break() {
                        return;
                    }
                    sleep(pause.max(wished)).await;
                    if is_lost {
                        break;
                    }
                }
            }
        }
    }
}

fn unwrapped<K>(event: Event<Wire<K>>) -> Event<K> {
    match event {
        Event::Apply(Wire(object)) => Event::Apply(object),
        Event::Delete(Wire(object)) => Event::Delete(object),
        Event::Init => Event::Init,
        Event::InitApply(Wire(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
    }
}

/// Whether the watch cannot go on from where it was: the server does not know that version any more (kube sees that only
/// when it is told within a watch), or a change could not be read and is lost.
fn is_place_lost(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => status.code == 410,
            kube::Error::SerdeError(_) => true,
            _ => false,
        },
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::NoResourceVersion => false,
    }
}

fn trouble(error: &watcher::Error) -> Trouble {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Trouble { refusal: refusal(error), message: message(error) },
        watcher::Error::WatchError(status) => {
            let error = kube::Error::Api(status.clone());
            Trouble { refusal: refusal(&error), message: message(&error) }
        }
        watcher::Error::NoResourceVersion => {
            Trouble { refusal: Refusal::Unavailable, message: error.to_string() }
        }
    }
}
