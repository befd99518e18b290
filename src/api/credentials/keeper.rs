//! Keeping the credentials good: tries until there are some, renews what expires and what files may have changed, and asks anew
//! for what the API server rejects. Nobody waits for a plugin that hangs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::exposure::watch_exposure;
use super::login::{Login, Obtained, Origin};
use crate::telemetry::Changed;
use crate::types::{Backoff, BackoffPolicy, WallClock, error_chain, sleep_until, watching};

/// Pauses between attempts that fail, and between attempts because of rejections. They never start anew while it goes on.
const PAUSES: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(600),
};

/// How often files are read anew: a token's file is to be read at least once a minute (Kubernetes docs).
const FILES: Duration = Duration::from_secs(60);

/// How long before it expires something is renewed, unless it is good for a short time only: then a fifth of that before.
const AHEAD: Duration = Duration::from_secs(120);

/// How long a request waits for the first credentials.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the credentials.
#[derive(Clone, Debug, Default)]
enum Access {
    /// The first attempt is under way.
    #[default]
    Pending,
    /// They are there.
    Ready(Ready),
    /// There are none.
    Failed(Arc<str>),
}

/// Credentials that are there.
#[derive(Clone, Debug)]
pub(in crate::api) struct Ready {
    /// Them.
    pub(in crate::api) login: Arc<Login>,
    /// Which they are: each has its own number.
    number: u64,
    /// Whether others could be had if these are rejected.
    is_renewable: bool,
}

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub(in crate::api) enum AccessError {
    /// There are no credentials.
    #[error("{0}")]
    None(Arc<str>),
    /// There are none yet.
    #[error("waiting for the credentials that {} names", .0.display())]
    Pending(PathBuf),
}

/// The credentials as requests use them. All clones are one.
#[derive(Clone, Debug)]
pub struct Credentials {
    path: Arc<PathBuf>,
    access: watch::Receiver<Access>,
    rejected: watch::Sender<u64>,
    exposure: watch::Receiver<Option<String>>,
}

impl Credentials {
    /// Those of the kubeconfig at `path`, which need not be there yet, and the task that keeps them.
    pub fn new(path: PathBuf, clock: WallClock) -> (CredentialsTask, Self) {
        let (access, shown) = watch::channel(Access::Pending);
        let (rejected, rejections) = watch::channel(0);
        let (exposed, exposure) = watch::channel(None);
        let credentials = Self { path: Arc::new(path.clone()), access: shown, rejected, exposure };
        let origin = Origin::new(path.clone());
        (CredentialsTask { path, origin, access, rejections, exposed, clock }, credentials)
    }

    /// The credentials as they are now; the first are waited for, though not for long. Cancel-safe.
    pub(in crate::api) async fn get(&self) -> Result<Ready, AccessError> {
        let mut access = self.access.clone();
        // Nobody keeps them any more: what is known is all there will be.
        let _ = timeout(PATIENCE, access.wait_for(|access| !matches!(access, Access::Pending))).await;
        let access = access.borrow().clone();
        match access {
            Access::Ready(ready) => Ok(ready),
            Access::Failed(problem) => Err(AccessError::None(problem)),
            Access::Pending => Err(AccessError::Pending(PathBuf::clone(&self.path))),
        }
    }

    /// Who else can read the files they are in, in a sentence; none if nobody can.
    pub fn exposure(&self) -> watch::Receiver<Option<String>> {
        self.exposure.clone()
    }

    /// The API server does not know who these are.
    pub(in crate::api) fn rejected(&self, ready: &Ready) {
        if ready.is_renewable {
            self.rejected.send_replace(ready.number);
        }
    }
}

/// Keeps them; to be run by the app.
pub struct CredentialsTask {
    path: PathBuf,
    origin: Origin,
    access: watch::Sender<Access>,
    rejections: watch::Receiver<u64>,
    exposed: watch::Sender<Option<String>>,
    clock: WallClock,
}

/// Why an attempt is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It is time.
    Due,
    /// The API server rejected what there is.
    Rejected,
}

impl CredentialsTask {
    /// Works until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let watching = watch_exposure(self.path.clone(), self.exposed.clone());
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: a plugin under way is ended.
            () = self.work() => {}
            // Cancel-safe: looking changes nothing.
            () = watching => {}
        }
    }

    async fn work(&mut self) {
        let mut trouble = Changed::new();
        let mut number = 0;
        let (mut failures, mut rejections) = (None, None);
        // When what there is expires; in the past if it was rejected, none if it does not.
        let mut expires = None;
        loop {
            match self.origin.obtain().await {
                Ok(obtained) => {
                    if failures.take().is_some() {
                        trouble = Changed::new();
                        tracing::info!("there are credentials for the API server now");
                    }
                    number += 1;
                    expires = obtained.expires;
                    let due = self.due(&obtained);
                    self.show(obtained, number);
                    if self.wait(due, number).await == Cause::Rejected {
                        tracing::info!("the API server does not know the credentials; asking for others");
                        expires = Some(Timestamp::MIN);
                        // Those that are rejected each time are not asked for all the time.
                        sleep(pause(&mut rejections)).await;
                    }
                }
                Err(error) => {
                    let problem = error_chain(&error);
                    if trouble.see(problem.clone()) {
                        tracing::warn!(
                            error = problem,
                            "cannot get credentials for the API server; trying again"
                        );
                    }
                    self.fail(problem, expires);
                    sleep(pause(&mut failures)).await;
                }
            }
        }
    }

    /// Waits until `due`, or until what has this number was rejected.
    async fn wait(&mut self, due: Option<Instant>, number: u64) -> Cause {
        tokio::select! {
            // Cancel-safe: a sleep.
            () = sleep_until(due) => Cause::Due,
            // Cancel-safe: looking at a watch takes nothing that is looked for again.
            () = watching::becomes(&mut self.rejections, |rejected| *rejected == number) => Cause::Rejected,
        }
    }

    /// When the next attempt is due; none if nothing could come of it before a rejection.
    fn due(&self, obtained: &Obtained) -> Option<Instant> {
        let now = Instant::now();
        match (obtained.expires, obtained.is_issued) {
            (Some(expires), _) => {
                let left = Duration::try_from(expires.duration_since(self.clock.now())).unwrap_or_default();
                let pause = left.saturating_sub(AHEAD.min(left / 5));
                Some(now + pause.max(PAUSES.initial))
            }
            // A plugin that names no end is run again when its credentials are rejected, as upstream does.
            (None, true) => None,
            (None, false) => obtained.is_renewable.then(|| now + FILES),
        }
    }

    fn show(&self, obtained: Obtained, number: u64) {
        let Obtained { login, is_renewable, .. } = obtained;
        self.access.send_replace(Access::Ready(Ready { login: Arc::new(login), number, is_renewable }));
    }

    /// What there is goes on being used as long as it is good, though it could not be renewed.
    fn fail(&self, problem: String, expires: Option<Timestamp>) {
        let is_good = expires.is_none_or(|expires| expires > self.clock.now());
        self.access.send_if_modified(|access| {
            let is_news = !(is_good && matches!(access, Access::Ready(_)));
            if is_news {
                *access = Access::Failed(problem.into());
            }
            is_news
        });
    }
}

/// The pause after one more failure.
fn pause(failures: &mut Option<Backoff<Instant>>) -> Duration {
    let now = Instant::now();
    let next = Backoff::next(*failures, &PAUSES, now, now);
    *failures = Some(next);
    next.delay
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
