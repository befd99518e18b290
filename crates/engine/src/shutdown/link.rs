//! The connection to logind: holds the delay lock, publishes its signals, and reconnects. Decides nothing about pods.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy, error_chain};
use hostlet_telemetry::Changed;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::delay::{Granted, InhibitDelay};
use super::inhibitor::Inhibitor;
use super::logind::{Logind, LogindError, LogindSession, SessionEvent};

/// Pauses between attempts to connect. A bus that restarts is back within seconds; one that a host lacks may be installed some
/// day.
const RECONNECT: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(300),
    reset_after: Duration::MAX,
};

/// Every pause is lengthened by up to this fraction.
const JITTER: f64 = 0.2;

/// A connection that lasted this long starts the pauses from the shortest.
const LASTED: Duration = Duration::from_secs(10);

/// What logind last said about a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signal {
    /// Counts the changes.
    pub(super) number: u64,
    /// Whether a shutdown has begun.
    pub(super) is_preparing: bool,
    /// How long logind delays it.
    pub(super) granted: Duration,
}

/// The connection, and what it publishes.
pub(super) struct Link {
    pub(super) logind: Arc<dyn Logind>,
    pub(super) delay: InhibitDelay,
    pub(super) inhibitor: Inhibitor,
    pub(super) signals: watch::Sender<Signal>,
    /// Why a shutdown would not wait for pods, as a sentence without its period.
    pub(super) problem: watch::Sender<Option<String>>,
    /// Whether logind has answered once, or could not be reached.
    pub(super) is_checked: watch::Sender<bool>,
}

impl Link {
    /// Keeps the connection. Never ends.
    pub(super) async fn run(self) -> Infallible {
        let mut backoff = None;
        let mut logged = Changed::new();
        loop {
            let began = Instant::now();
            let error = match self.logind.connect().await {
                Ok(session) => self.follow(session, &mut logged).await,
                Err(error) => error,
            };
            self.is_checked.send_replace(true);
            let text = error_chain(&error);
            if logged.see(Some(text.clone())) {
                tracing::warn!(
                    error = text,
                    "cannot delay a shutdown of this host through systemd-logind; trying again"
                );
            }
            let now = Instant::now();
            let previous = backoff.filter(|_| now.duration_since(began) < LASTED);
            // A bus that only restarts is no problem yet.
            if !self.inhibitor.is_held() || previous.is_some() {
                self.set_problem(Some(format!(
                    "a shutdown of this host does not wait for the pods: {text}; start D-Bus and systemd-logind, \
                     or remove shutdownGracePeriod from the configuration"
                )));
            }
            let next = Backoff::next(previous, &RECONNECT, now, now);
            backoff = Some(next);
            sleep(next.delay.mul_f64(1.0 + JITTER * rand::random::<f64>())).await;
        }
    }

    /// Follows logind until the connection is lost.
    async fn follow(
        &self,
        mut session: Box<dyn LogindSession>,
        logged: &mut Changed<Option<String>>,
    ) -> LogindError {
        loop {
            let granted = match self.set_up(&*session).await {
                Ok(granted) => granted,
                Err(error) => return error,
            };
            if logged.see(granted.shortage.clone()) {
                match &granted.shortage {
                    None => tracing::info!(
                        seconds = self.delay.needed.as_secs(),
                        "a shutdown of this host waits for its pods"
                    ),
                    Some(shortage) => tracing::warn!("{shortage}"),
                }
            }
            self.set_problem(granted.shortage);
            self.is_checked.send_replace(true);
            loop {
                match session.next().await {
                    // Any process may send this one such a signal, so logind's own state decides.
                    Ok(SessionEvent::PrepareForShutdown) => {
                        let followed = match session.is_preparing().await {
                            Ok(true) => {
                                self.publish(true, granted.delay);
                                Ok(())
                            }
                            Ok(false) => self.cancelled(&*session, granted.delay).await,
                            Err(error) => Err(error),
                        };
                        if let Err(error) = followed {
                            return error;
                        }
                    }
                    Ok(SessionEvent::Restarted) => break,
                    Err(error) => return error,
                }
            }
        }
    }

    /// Checks the delay, takes the lock, and reads what was missed while there was no connection.
    async fn set_up(&self, session: &dyn LogindSession) -> Result<Granted, LogindError> {
        let granted = self.delay.ensure(session).await?;
        let is_preparing = session.is_preparing().await?;
        if !is_preparing {
            self.cancelled(session, granted.delay).await?;
            return Ok(granted);
        }
        // A daemon that starts during a shutdown has no lock; one that has released its lock for this shutdown needs none.
        let is_news = !self.signals.borrow().is_preparing;
        if is_news && !self.inhibitor.is_held() {
            // logind may reject it by now.
            match session.inhibit().await {
                Ok(lock) => self.inhibitor.hold(self.signals.borrow().number, lock),
                Err(error) => tracing::warn!(
                    error = error_chain(&error),
                    "the host is already shutting down, and does not wait for the pods"
                ),
            }
        }
        self.publish(true, granted.delay);
        Ok(granted)
    }

    /// No shutdown has begun: takes the lock for the next one.
    async fn cancelled(&self, session: &dyn LogindSession, granted: Duration) -> Result<(), LogindError> {
        let lock = session.inhibit().await?;
        let is_news = self.signals.borrow().is_preparing;
        self.inhibitor.hold(self.signals.borrow().number + u64::from(is_news), lock);
        self.publish(false, granted);
        Ok(())
    }

    fn publish(&self, is_preparing: bool, granted: Duration) {
        self.signals.send_if_modified(|signal| {
            let is_news = signal.is_preparing != is_preparing;
            *signal = Signal { number: signal.number + u64::from(is_news), is_preparing, granted };
            is_news
        });
    }

    fn set_problem(&self, problem: Option<String>) {
        self.problem.send_if_modified(|known| {
            let is_news = *known != problem;
            *known = problem;
            is_news
        });
    }
}
