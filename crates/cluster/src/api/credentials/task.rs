//! Keeps the credentials valid: retries until they are available, renews them before they expire, re-reads files, and
//! replaces credentials that the API server rejects. A hung plugin blocks no request.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy, Rescan, WallClock, error_chain, sleep_until, watching};
use hostlet_telemetry::Changed;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::exposure::watch_exposure;
use super::login::{Login, Obtained, Origin};
use super::source::CredentialsSource;

/// Back-off after failed attempts and after rejections. It is not reset while they continue.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(600),
};

/// Interval of re-reading files: once a minute, like client-go for token files.
const FILE_PERIOD: Duration = Duration::from_secs(60);

/// How long before expiry credentials are renewed; for short-lived ones, a fifth of their lifetime.
const RENEW_AHEAD: Duration = Duration::from_secs(120);

/// Maximum wait of a request for the first credentials.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);

/// State of the credentials.
#[derive(Clone, Debug, Default)]
pub(in crate::api) enum Access {
    /// The first attempt is in progress.
    #[default]
    Pending,
    /// Credentials are available.
    Ready(Ready),
    /// No credentials are available.
    Failed {
        /// The error.
        problem: Arc<str>,
        /// Whether there are none, so that a bootstrap may replace them.
        are_none: bool,
    },
}

/// Available credentials.
#[derive(Clone, Debug)]
pub(in crate::api) struct Ready {
    pub(in crate::api) login: Arc<Login>,
    /// Their unique number.
    number: u64,
    /// Whether another attempt could give different credentials.
    is_renewable: bool,
}

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub(in crate::api) enum AccessError {
    /// There are no credentials.
    #[error("{0}")]
    None(Arc<str>),
    /// The first attempt has not finished.
    #[error("waiting for the credentials that {} names", .0.display())]
    Pending(PathBuf),
}

/// A handle to the credentials for requests. Clones share them.
#[derive(Clone, Debug)]
pub struct Credentials {
    path: Arc<PathBuf>,
    access: watch::Receiver<Access>,
    rejected: watch::Sender<u64>,
    /// Since when the API server rejects requests, without accepting one in between.
    rejected_since: watch::Sender<Option<Instant>>,
    reload: Arc<Notify>,
    exposure: watch::Receiver<Option<String>>,
}

impl Credentials {
    /// The credentials of this source, and the task that keeps them valid.
    pub fn new(source: CredentialsSource) -> (CredentialsTask, Self) {
        let (access, receiver) = watch::channel(Access::Pending);
        let (rejected, rejections) = watch::channel(0);
        let (exposed, exposure) = watch::channel(None);
        let reload = Arc::<Notify>::default();
        let credentials = Self {
            path: Arc::new(source.file.path.clone()),
            access: receiver,
            rejected,
            rejected_since: watch::Sender::new(None),
            reload: reload.clone(),
            exposure,
        };
        let (path, clock) = (source.file.path.clone(), source.clock.clone());
        let origin = Origin::new(source);
        let rescan = Rescan::default();
        (CredentialsTask { path, origin, access, rejections, reload, exposed, clock, rescan }, credentials)
    }

    /// The current credentials. Waits a limited time for the first ones. Cancel-safe.
    pub(in crate::api) async fn get(&self) -> Result<Ready, AccessError> {
        let mut access = self.access.clone();
        // A timeout leaves the state pending; an error means that the task has ended, so the state is final.
        let _ = timeout(FIRST_TIMEOUT, access.wait_for(|access| !matches!(access, Access::Pending))).await;
        let access = access.borrow().clone();
        match access {
            Access::Ready(ready) => Ok(ready),
            Access::Failed { problem, .. } => Err(AccessError::None(problem)),
            Access::Pending => Err(AccessError::Pending(PathBuf::clone(&self.path))),
        }
    }

    /// Who else can read the credential files, as a sentence; `None` if no other user can.
    pub fn exposure(&self) -> watch::Receiver<Option<String>> {
        self.exposure.clone()
    }

    /// Reports that the API server rejected these credentials.
    pub(in crate::api) fn rejected(&self, ready: &Ready) {
        self.rejected_since.send_if_modified(|since| {
            let is_news = since.is_none();
            since.get_or_insert_with(Instant::now);
            is_news
        });
        if ready.is_renewable {
            self.rejected.send_replace(ready.number);
        }
    }

    /// Reports that the API server accepted the credentials.
    pub(in crate::api) fn accepted(&self) {
        self.rejected_since.send_if_modified(|since| since.take().is_some());
    }

    /// Since when the API server rejects requests.
    pub(in crate::api) fn rejected_since(&self) -> watch::Receiver<Option<Instant>> {
        self.rejected_since.subscribe()
    }

    /// The state of the credentials.
    pub(in crate::api) fn access(&self) -> watch::Receiver<Access> {
        self.access.clone()
    }

    /// Reads the kubeconfig and its files again, now.
    pub(in crate::api) fn reload(&self) {
        // A new certificate is not what was rejected.
        self.accepted();
        self.reload.notify_one();
    }
}

/// The task that keeps the credentials valid; run by the app.
pub struct CredentialsTask {
    path: PathBuf,
    origin: Origin,
    access: watch::Sender<Access>,
    rejections: watch::Receiver<u64>,
    reload: Arc<Notify>,
    exposed: watch::Sender<Option<String>>,
    clock: WallClock,
    rescan: Rescan,
}

/// The reason of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The attempt is due.
    Due,
    /// The API server rejected the current credentials.
    Rejected,
    /// The kubeconfig or its files were replaced.
    Reload,
}

impl CredentialsTask {
    /// Reads the files again on request, too.
    pub fn with_rescan(mut self, rescan: Rescan) -> Self {
        self.rescan = rescan;
        self
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let watching = watch_exposure(self.path.clone(), self.exposed.clone());
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: a running plugin is killed.
            () = self.work() => {}
            // Cancel-safe: only reads.
            () = watching => {}
        }
    }

    async fn work(&mut self) {
        let mut last_error = Changed::new();
        let mut number = 0;
        let (mut failures, mut rejections) = (None, None);
        // Expiry of the current credentials: in the past if they were rejected, `None` if they do not expire.
        let mut expires = None;
        loop {
            match self.origin.obtain().await {
                Ok(obtained) => {
                    if failures.take().is_some() {
                        last_error = Changed::new();
                        tracing::info!("obtained credentials for the API server");
                    }
                    number += 1;
                    expires = obtained.expires;
                    let due = self.due(&obtained);
                    self.publish(obtained, number);
                    match self.wait(due, number).await {
                        Cause::Due => {}
                        Cause::Rejected => {
                            tracing::info!("the API server rejected the credentials; requesting new ones");
                            expires = Some(Timestamp::MIN);
                            // Credentials that are always rejected are requested with back-off.
                            self.pause(pause(&mut rejections)).await;
                        }
                        Cause::Reload => self.origin.forget(),
                    }
                }
                Err(error) => {
                    let problem = error_chain(&error);
                    if last_error.see(problem.clone()) {
                        tracing::warn!(
                            error = problem,
                            "cannot get credentials for the API server; retrying"
                        );
                    }
                    self.fail(problem, error.is_without_credentials(), expires);
                    self.pause(pause(&mut failures)).await;
                }
            }
        }
    }

    /// Waits until `due` or until the credentials with this number are rejected.
    async fn wait(&mut self, due: Option<Instant>, number: u64) -> Cause {
        tokio::select! {
            // Cancel-safe: a sleep.
            () = sleep_until(due) => Cause::Due,
            // Cancel-safe as documented there.
            () = self.rescan.requested() => Cause::Due,
            // Cancel-safe: only reads a watch.
            () = watching::becomes(&mut self.rejections, |rejected| *rejected == number) => Cause::Rejected,
            // Cancel-safe: a notification stays until it is received.
            () = self.reload.notified() => Cause::Reload,
        }
    }

    /// Waits this long, or until the kubeconfig is replaced or a rescan is requested.
    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            // Cancel-safe: a sleep.
            () = sleep(pause) => {}
            // Cancel-safe as documented there.
            () = self.rescan.requested() => {}
            // Cancel-safe: a notification stays until it is received.
            () = self.reload.notified() => self.origin.forget(),
        }
    }

    /// When the next attempt is due; `None` if only a rejection makes one useful.
    fn due(&self, obtained: &Obtained) -> Option<Instant> {
        let now = Instant::now();
        match (obtained.expires, obtained.is_issued) {
            (Some(expires), _) => renewal(expires, self.clock.now()).map(|pause| now + pause),
            // As upstream: a plugin that reports no expiry is run again only when its credentials are rejected.
            (None, true) => None,
            (None, false) => obtained.is_renewable.then(|| now + FILE_PERIOD),
        }
    }

    fn publish(&self, obtained: Obtained, number: u64) {
        let Obtained { login, is_renewable, .. } = obtained;
        self.access.send_replace(Access::Ready(Ready { login: Arc::new(login), number, is_renewable }));
    }

    /// Credentials that could not be renewed are used until they expire.
    fn fail(&self, problem: String, are_none: bool, expires: Option<Timestamp>) {
        let is_valid = expires.is_none_or(|expires| expires > self.clock.steady());
        self.access.send_if_modified(|access| {
            let is_changed = !(is_valid && matches!(access, Access::Ready(_)));
            if is_changed {
                *access = Access::Failed { problem: problem.into(), are_none };
            }
            is_changed
        });
    }
}

/// How long credentials that were issued just now are used; `None` if only a rejection shows when they have expired: by a clock that is
/// ahead they have already, and a plugin would run without a pause.
fn renewal(expires: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(expires.duration_since(now)).ok().filter(|left| !left.is_zero())?;
    Some(left.saturating_sub(RENEW_AHEAD.min(left / 5)).max(BACKOFF.initial))
}

/// The pause after another failure.
fn pause(failures: &mut Option<Backoff<Instant>>) -> Duration {
    let now = Instant::now();
    let next = Backoff::next(*failures, &BACKOFF, now, now);
    *failures = Some(next);
    next.delay
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
