//! Follows objects of one kind with kube's watcher, restarted or resumed after any failure, with back-off and the server's
//! Retry-After. Retries forever; decides nothing about the objects.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hostlet_base::{Backoff, BackoffPolicy};
use http::Request;
use kube::client::Body;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use super::error::{ApiErrorKind, error_kind, message};
use super::objects::{TypedApi, Wire};

/// Back-off after failures. The first pauses are short: a node is often denied an object of a pod that was just bound to it,
/// until the server's authorizer has seen the binding.
const BACKOFF: BackoffPolicy = BackoffPolicy {
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

/// Like [`follow`], for the objects that `api` selects with a client, but also notifies when the failure is over: a watch that
/// is open again sends nothing until a change, which may take hours.
pub(crate) async fn follow_with_recovery<K>(
    client: Client,
    api: impl FnOnce(Client) -> TypedApi<K>,
    config: Config,
    notify: impl FnMut(Notification<K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let answered = Arc::<Notify>::default();
    let api = api(with_notification(client, answered.clone()));
    run(api, config, Some(answered), notify).await;
}

/// A client that notifies of each successful response; of a watch, when it is open.
fn with_notification(client: Client, answered: Arc<Notify>) -> Client {
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

/// Passes the objects that `config` selects, their changes and failures to `notify` until it breaks. After a failure it resumes
/// from the last version if the server still has it, else from a new list.
pub(crate) async fn follow<K>(
    api: TypedApi<K>,
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
    run(api, config, None, notify).await;
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
                    let follow_error = follow_error(&error);
                    let now = Instant::now();
                    let next = Backoff::next(backoff, &BACKOFF, now, now);
                    backoff = Some(next);
                    // Jitter: after a failure of the server all clients reconnect at once.
                    let pause = next.delay.mul_f64(rand::random_range(0.5..1.0));
                    let retry_after = follow_error.error_kind.retry_after();
                    if notify(Notification::FollowError(follow_error)).is_break() {
                        return;
                    }
                    is_failing = true;
                    if let Some(answered) = &answered {
                        // A response from before the failure does not show its end.
                        let _ = answered.notified().now_or_never();
                    }
                    sleep(pause.max(retry_after)).await;
                    if must_relist {
                        break;
                    }
                }
            }
        }
    }
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
