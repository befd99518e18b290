//! Following objects of one kind: kube's watcher, started anew or resumed after whatever goes wrong, with pauses that grow
//! and that heed the server's own wish. Never gives up; decides nothing about the objects.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use http::Request;
use kube::client::Body;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use super::error::{ApiErrorKind, error_kind, message};
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
pub struct FollowError {
    /// What it means.
    pub error_kind: ApiErrorKind,
    /// In the server's own words, if it had any.
    pub message: String,
}

/// What is told of followed objects.
#[derive(Debug)]
pub enum News<K> {
    /// They changed, or were listed.
    Event(Event<K>),
    /// They cannot be read at present.
    FollowError(FollowError),
    /// They can be read again, though nothing changed meanwhile.
    Recovered,
}

/// Like [`follow`], of the objects that `api` finds with a client, and tells when trouble is over too: a watch that is open
/// again says nothing by itself until something changes, which may take hours.
pub async fn follow_with_recovery<K>(
    client: Client,
    api: impl FnOnce(Client) -> Objects<K>,
    config: Config,
    tell: impl FnMut(News<K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let answered = Arc::<Notify>::default();
    let api = api(noticing(client, answered.clone()));
    run(api, config, Some(answered), tell).await;
}

/// A client that tells of each request that is answered with success; of one that opens a watch, when it is open.
fn noticing(client: Client, answered: Arc<Notify>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, answered) = (client.clone(), answered.clone());
        async move {
            let answer = client.send(request).await?;
            if answer.status().is_success() {
                answered.notify_one();
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, namespace)
}

/// Tells of the objects that `config` selects and of their changes, and of what keeps them from being read, until `tell`
/// breaks it off. After trouble it goes on from where it was if the server still knows, else from a new listing.
pub async fn follow<K>(
    api: Objects<K>,
    config: Config,
    mut tell: impl FnMut(Result<Event<K>, FollowError>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let tell = |news| match news {
        News::Event(event) => tell(Ok(event)),
        News::FollowError(trouble) => tell(Err(trouble)),
        News::Recovered => ControlFlow::Continue(()),
    };
    run(api, config, None, tell).await;
}

/// Follows; `answered` is notified of answers, if anybody wants to know.
async fn run<K>(
    api: Objects<K>,
    config: Config,
    answered: Option<Arc<Notify>>,
    mut tell: impl FnMut(News<K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = None;
    let mut is_troubled = false;
    loop {
        // Boxed: most of what it needs is for the short time in which an event is read.
        let mut events = watcher(api.clone(), config.clone()).boxed();
        loop {
            let event = tokio::select! {
                // What happened is told in its order: an event says itself that trouble is over.
                biased;
                // Cancel-safe: the stream keeps what it is at.
                event = events.next() => event,
                // Cancel-safe: a notice is taken only when it is returned.
                () = notice(answered.as_deref()), if is_troubled => {
                    (is_troubled, backoff) = (false, None);
                    if tell(News::Recovered).is_break() {
                        return;
                    }
                    continue;
                }
            };
            match event {
                None => break,
                Some(Ok(event)) => {
                    if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                        (is_troubled, backoff) = (false, None);
                    }
                    if tell(News::Event(unwrapped(event))).is_break() {
                        return;
                    }
                }
                Some(Err(error)) => {
                    let is_lost = is_place_lost(&error);
                    let trouble = trouble(&error);
                    let now = Instant::now();
                    let next = Backoff::next(backoff, &PAUSES, now, now);
                    backoff = Some(next);
                    // Not all in step: after a failure of the server everybody comes at once.
                    let pause = next.delay.mul_f64(rand::random_range(0.5..1.0));
                    let wished = trouble.error_kind.wished_pause();
                    if tell(News::FollowError(trouble)).is_break() {
                        return;
                    }
                    is_troubled = true;
                    if let Some(answered) = &answered {
                        // An answer from before the trouble says nothing of its end.
                        let _ = answered.notified().now_or_never();
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

async fn notice(answered: Option<&Notify>) {
    match answered {
        Some(answered) => answered.notified().await,
        None => std::future::pending().await,
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

fn trouble(error: &watcher::Error) -> FollowError {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            FollowError { error_kind: error_kind(error), message: message(error) }
        }
        watcher::Error::WatchError(status) => {
            let error = kube::Error::Api(status.clone());
            FollowError { error_kind: error_kind(&error), message: message(&error) }
        }
        watcher::Error::NoResourceVersion => {
            FollowError { error_kind: ApiErrorKind::Unavailable, message: error.to_string() }
        }
    }
}
