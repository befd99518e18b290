//! The stream of one driver instance: opened, read, and opened again after it ended, until the instance says that it has none. Takes
//! the latest message at most once a second.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use hostlet_base::{Backoff, BackoffPolicy, WallClock, error_chain, one_line, sleep_until};
use hostlet_plugins::PluginInstance;
use hostlet_proto::dra::NodeListAndWatchResourcesResponse;
use hostlet_telemetry::Changed;
use tokio::time::Instant;

use super::driver::{Link, Word};
use super::pace::INTERVAL;
use super::shared::Shared;
use super::translate::translate;

/// Pauses before a stream that failed is opened again; the constants of the kubelet of 1.30, whose back-off is reset after twice
/// the longest pause without a failure.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(5),
    max: Duration::from_secs(180),
    reset_after: Duration::from_secs(360),
};

/// The pause after a driver ended its stream because it had said everything. It may also have been stopped in an orderly way, and
/// be back at the same socket.
const PAUSE_AFTER_END: Duration = Duration::from_secs(600);

/// Maximum length of a driver's error message in a report, in bytes.
const MESSAGE_MAX: usize = 300;

pub(super) type Messages = BoxStream<'static, Result<NodeListAndWatchResourcesResponse, StreamError>>;

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// The socket could not be dialed.
    #[error("cannot connect to {}", endpoint.display())]
    Dial {
        endpoint: PathBuf,
        #[source]
        source: tonic::transport::Error,
    },
    /// The driver did not complete the connection in time.
    #[error("{} did not answer within {} s", endpoint.display(), limit.as_secs())]
    DialTimedOut { endpoint: PathBuf, limit: Duration },
    /// The driver does not have the method, or does not implement it.
    #[error("the driver does not implement NodeListAndWatchResources")]
    Unimplemented,
    /// The driver or the connection failed.
    #[error("NodeListAndWatchResources failed: {code:?}: {message}")]
    Failed {
        code: tonic::Code,
        /// The driver's message.
        message: String,
    },
    /// The driver ended the stream without an error, and without a message.
    #[error("the driver ended the stream before it sent a message")]
    Empty,
    /// hostlet itself failed.
    #[error("reading the stream panicked")]
    Panicked,
}

/// Opens streams.
#[async_trait]
pub(super) trait Dial: Send + Sync + 'static {
    /// Connects to the socket of a driver. The call itself is made when the messages are read: a driver responds to it only when
    /// it has something to say.
    async fn open(&self, endpoint: &Path) -> Result<Messages, StreamError>;
}

/// Reports the problems of a driver's new word; there may be none. Must not block.
pub(super) type ReportProblems = Arc<dyn Fn(&str, &[String]) + Send + Sync>;

/// What a stream needs.
#[derive(Clone)]
pub(super) struct StreamContext {
    pub(super) shared: Shared,
    pub(super) dial: Arc<dyn Dial>,
    pub(super) clock: WallClock,
    pub(super) report: ReportProblems,
}

impl StreamContext {
    /// Follows this instance until it turns out to have no stream. Its driver's state is changed only while it serves.
    pub(super) async fn follow(self, instance: Arc<PluginInstance>) {
        let (mut backoff, mut reported) = (None, Changed::new());
        loop {
            self.set_link(&instance, Link::Connecting, None);
            // A panic is a failure like any other: whatever the driver sent to cause it, it may send again at once.
            let attempt = AssertUnwindSafe(self.attempt(&instance)).catch_unwind();
            let until = match attempt.await.unwrap_or(Err(StreamError::Panicked)) {
                Ok(()) => {
                    let until = Instant::now() + jittered(PAUSE_AFTER_END);
                    tracing::debug!(driver = instance.name, instance = %instance.id, "the driver ended its stream");
                    self.set_link(&instance, Link::Ended(until), None);
                    until
                }
                Err(StreamError::Unimplemented) => {
                    tracing::info!(
                        driver = instance.name,
                        instance = %instance.id,
                        "the driver does not report its devices to the kubelet; it publishes ResourceSlices by itself, if any"
                    );
                    self.set_link(&instance, Link::Unsupported, None);
                    self.say(&instance, Word::Unsupported);
                    return;
                }
                Err(error) => {
                    let now = Instant::now();
                    let next = Backoff::next(backoff, &BACKOFF, now, now);
                    backoff = Some(next);
                    let until = now + jittered(next.delay);
                    let error = one_line(&error_chain(&error), MESSAGE_MAX);
                    if reported.see(error.clone()) {
                        tracing::warn!(
                            driver = instance.name,
                            instance = %instance.id,
                            error,
                            "the stream of devices failed; opening it again in {:?}, and so on",
                            until - now
                        );
                    }
                    self.set_link(&instance, Link::Waiting(until), Some(error));
                    until
                }
            };
            tokio::time::sleep_until(until).await;
        }
    }

    /// Opens the stream and reads it to its end.
    async fn attempt(&self, instance: &PluginInstance) -> Result<(), StreamError> {
        let messages = self.dial.open(&instance.endpoint).await?;
        self.set_link(instance, Link::Open, None);
        self.read(instance, messages).await
    }

    /// Reads messages until the stream ends. The end after a message is no error: the driver has said everything.
    async fn read(&self, instance: &PluginInstance, mut messages: Messages) -> Result<(), StreamError> {
        let mut latest: Option<NodeListAndWatchResourcesResponse> = None;
        let mut has_message = false;
        let mut next = Instant::now();
        loop {
            tokio::select! {
                // In order, so that a driver that never pauses is taken in time.
                biased;
                // Cancel-safe: a sleep.
                () = sleep_until(latest.as_ref().map(|_| next)) => {
                    if let Some(message) = latest.take() {
                        self.take(instance, &message);
                        next = Instant::now() + INTERVAL;
                    }
                }
                // Cancel-safe: the stream keeps its state. Read all the time, so that nothing outdated waits in the driver.
                message = messages.next() => match message {
                    Some(Ok(message)) => {
                        has_message = true;
                        latest = Some(message);
                    }
                    ended => {
                        // What it said before it ended is its last word.
                        if let Some(message) = latest.take() {
                            self.take(instance, &message);
                        }
                        return match ended {
                            Some(Err(error)) => Err(error),
                            _ if has_message => Ok(()),
                            _ => Err(StreamError::Empty),
                        };
                    }
                },
            }
        }
    }

    /// Takes a message as the driver's word.
    fn take(&self, instance: &PluginInstance, message: &NodeListAndWatchResourcesResponse) {
        let inventory = translate(&instance.name, message);
        let problems = inventory.problems.lines();
        if self.say(instance, Word::Said(Arc::new(inventory))) {
            for problem in &problems {
                tracing::warn!(
                    driver = instance.name,
                    problem,
                    "a part of the driver's devices cannot be published"
                );
            }
            (self.report)(&instance.name, &problems);
        }
    }

    /// Returns whether the word is new.
    fn say(&self, instance: &PluginInstance, word: Word) -> bool {
        let (at, now) = (self.clock.now(), Instant::now());
        let is_new = self
            .shared
            .driver(&instance.name, |driver| driver.is_serving(instance.id) && driver.said(word, at, now));
        self.shared.due.notify_one();
        is_new.unwrap_or(false)
    }

    fn set_link(&self, instance: &PluginInstance, link: Link, error: Option<String>) {
        self.shared.driver(&instance.name, |driver| {
            if driver.is_serving(instance.id) {
                driver.link = link;
                // While the stream is opened again, the error that ended it still explains why.
                if error.is_some() || driver.link == Link::Unsupported {
                    driver.stream_error = error;
                }
            }
        });
    }
}

/// A pause that differs by node: drivers of many nodes may have failed at once.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}
