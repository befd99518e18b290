//! The loop: what is passed on, when a watch is resumed and when all objects are read again.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hostlet_base::{Backoff, BackoffPolicy};
use kube::runtime::watcher::{self, Config, Event, InitialListStrategy, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::client::follower;
use crate::api::error::{ApiErrorKind, error_kind, message};
use crate::api::objects::{TypedApi, Wire};
use crate::api::pause;

/// Back-off while the server is away or overloaded; upstream's constants.
const OUTAGE: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(800),
    max: Duration::from_secs(30),
    reset_after: Duration::from_secs(120),
};

/// Back-off while the server denies the objects. The first pauses are short: a node is often denied an object of a pod that was just
/// bound to it, until the server's authorizer has seen the binding.
const DENIAL: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(50),
    max: Duration::from_secs(30),
    reset_after: Duration::from_secs(120),
};

/// Why the objects cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FollowError {
    /// Its class.
    pub(crate) error_kind: ApiErrorKind,
    /// The message: the server's own, if any.
    pub(crate) message: String,
}

/// A notification about followed objects.
#[derive(Debug)]
pub(crate) enum Notification<K> {
    /// Objects changed or were listed.
    Event(Event<K>),
    /// The objects cannot be read now.
    FollowError(FollowError),
    /// The objects can be read again, without a change.
    Recovered,
}

/// Like [`follow`], but also notifies when the failure is over: a watch that is open again sends nothing until a change, which may take
/// hours.
pub(crate) async fn follow_with_recovery<K>(
    client: Client,
    api: impl FnOnce(Client) -> TypedApi<K>,
    config: Config,
    notify: impl FnMut(Notification<K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let answered = Arc::<Notify>::default();
    run(api(follower(client, Some(answered.clone()))), config, Some(answered), notify).await;
}

/// Passes the objects that `config` selects of those that `api` makes of a client, their changes and failures to `notify` until it
/// breaks. All of them come in the same response as their changes, where the server supports that. After a failure it resumes from the
/// last version if the server still has it, else begins again with all objects.
pub(crate) async fn follow<K>(
    client: Client,
    api: impl FnOnce(Client) -> TypedApi<K>,
    config: Config,
    mut notify: impl FnMut(Result<Event<K>, FollowError>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let notify = |notification| match notification {
        Notification::Event(event) => notify(Ok(event)),
        Notification::FollowError(follow_error) => notify(Err(follow_error)),
        Notification::Recovered => ControlFlow::Continue(()),
    };
    run(api(follower(client, None)), config, None, notify).await;
}

/// The loop; `answered`, if given, is notified of successful responses.
async fn run<K>(
    api: TypedApi<K>,
    config: Config,
    answered: Option<Arc<Notify>>,
    mut notify: impl FnMut(Notification<K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = None;
    let mut is_failing = false;
    let mut config = config.streaming_lists();
    loop {
        // Boxed because most of its size is needed only while an event is decoded.
        let mut events = watcher(api.clone(), config.clone()).boxed();
        loop {
            let event = tokio::select! {
                // In order: an event itself shows that the failure is over.
                biased;
                // Cancel-safe: the stream keeps its state.
                event = events.next() => event,
                // Cancel-safe: a notification is consumed only when returned.
                () = notified(answered.as_deref()), if is_failing => {
                    (is_failing, backoff) = (false, None);
                    if notify(Notification::Recovered).is_break() {
                        return;
                    }
                    continue;
                }
            };
            match event {
                None => break,
                Some(Ok(event)) => {
                    if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                        (is_failing, backoff) = (false, None);
                    }
                    if notify(Notification::Event(unwrapped(event))).is_break() {
                        return;
                    }
                }
                Some(Err(error)) => {
                    let must_relist = cannot_resume(&error);
                    if lacks_streaming(&config, &error) {
                        config.initial_list_strategy = InitialListStrategy::ListWatch;
                        break;
                    }
                    let follow_error = follow_error(&error);
                    let pause = next_pause(&mut backoff, follow_error.error_kind);
                    if notify(Notification::FollowError(follow_error)).is_break() {
                        return;
                    }
                    is_failing = true;
                    if let Some(answered) = &answered {
                        // A response from before the failure does not show its end.
                        let _ = answered.notified().now_or_never();
                    }
                    sleep(pause).await;
                    if must_relist {
                        break;
                    }
                }
            }
        }
    }
}

/// Whether the server rejects a watch that begins with all objects, as one before Kubernetes 1.34 may: they are listed instead.
fn lacks_streaming(config: &Config, error: &watcher::Error) -> bool {
    let is_rejected = match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 400 | 422),
        watcher::Error::WatchStartFailed(_)
        | watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
    };
    is_rejected && config.initial_list_strategy == InitialListStrategy::StreamingList
}

fn next_pause(backoff: &mut Option<Backoff<Instant>>, error_kind: ApiErrorKind) -> Duration {
    let policy = match error_kind {
        ApiErrorKind::TooMany(_) | ApiErrorKind::Unavailable => &OUTAGE,
        ApiErrorKind::NotFound
        | ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Forbidden
        | ApiErrorKind::Invalid => &DENIAL,
    };
    let now = Instant::now();
    // An outage after denials begins with its own first pause.
    let previous = backoff.filter(|previous| previous.delay >= policy.initial);
    let next = Backoff::next(previous, policy, now, now);
    *backoff = Some(next);
    pause(next.delay, error_kind.retry_after(), rand::random())
}

async fn notified(answered: Option<&Notify>) {
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

/// Whether the watch cannot be resumed: the server no longer has that version (kube detects that only if the error arrives within a
/// watch), or a change could not be decoded and is lost.
fn cannot_resume(error: &watcher::Error) -> bool {
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

fn follow_error(error: &watcher::Error) -> FollowError {
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
