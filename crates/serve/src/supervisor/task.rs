//! The task that keeps the service manager informed. It has one timer, that of the watchdog, besides the pause between two
//! status lines.

use std::time::Duration;

use hostlet_base::{WallClock, sleep_until, watching};
use hostlet_engine::source::SourceState;
use hostlet_observe::pleg;
use hostlet_observe::status::StatusCache;
use hostlet_pod::{ApiState, PodPhase};
use hostlet_telemetry::{Changed, Heartbeats};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::notifier::{Notifier, Notify};
use super::status_line::{ConfigState, StatusFacts, status_line};

/// Feeds per watchdog limit: one that is late or skipped is no reason to be killed.
const FEEDS: u32 = 3;

/// Longest wait for the manifests before the daemon counts as ready: they may be on a server that does not respond, which
/// delays only their pods.
const MANIFESTS_LIMIT: Duration = Duration::from_secs(10);

/// Pause between two status lines.
const STATUS_PAUSE: Duration = Duration::from_secs(1);

/// The decision whether pods may run here, which is open at a first start.
pub struct StartDecision {
    /// Whether they may.
    pub may_run: watch::Receiver<bool>,
    /// Longest wait for it before the daemon counts as ready.
    pub patience: Duration,
}

/// What the service manager is informed of.
pub struct SupervisorInputs {
    /// The main loops.
    pub heartbeats: Heartbeats,
    /// The pods, which are counted in the status line.
    pub status_cache: StatusCache,
    /// The health of the relist.
    pub pleg: watch::Receiver<pleg::Health>,
    /// State of the static pods' manifests.
    pub manifests: watch::Receiver<SourceState>,
    /// The pods of the API server; ready on a standalone node.
    pub api: watch::Receiver<ApiState>,
    /// The configuration, as of the last reload.
    pub config: watch::Receiver<ConfigState>,
    /// The decision about this start.
    pub start: StartDecision,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// Informs the service manager, to be run by the app.
pub struct Supervisor {
    notifier: Notifier,
    inputs: SupervisorInputs,
    /// Initially the last relist is the start of the daemon.
    started: Instant,
    /// Whether the line says that the runtime is away.
    shows_outage: bool,
    overdue: Changed<Vec<&'static str>>,
    overdue_now: Vec<&'static str>,
    line: Changed<String>,
}

impl Supervisor {
    /// Reports `inputs` through `notifier`.
    pub fn new(notifier: Notifier, inputs: SupervisorInputs) -> Self {
        let started = inputs.pleg.borrow().last_relist;
        Self {
            started,
            notifier,
            inputs,
            shows_outage: false,
            overdue: Changed::new(),
            overdue_now: Vec::new(),
            line: Changed::new(),
        }
    }

    /// Reports until cancelled. `stop` is the beginning of the daemon's shutdown, during which the watchdog is still fed.
    pub async fn run(mut self, stop: CancellationToken, cancel: CancellationToken) {
        // The control socket is open, and the runtime is being connected to. Neither it nor the API server is waited for, except as
        // far as a first start needs them for its decision: whoever starts a daemon that is refused learns that it did not start.
        let manifests = &mut self.inputs.manifests;
        let StartDecision { may_run, patience } = &mut self.inputs.start;
        let read = async {
            let _ = timeout(MANIFESTS_LIMIT, manifests.wait_for(|manifests| manifests.ready)).await;
        };
        let decided = async {
            let _ = timeout(*patience, may_run.wait_for(|may_run| *may_run)).await;
        };
        let is_ready = tokio::select! {
            biased;
            // Cancel-safe, both: wait for a token.
            () = cancel.cancelled() => return,
            () = stop.cancelled() => false,
            // Cancel-safe: only reads two watches.
            ((), ()) = async { tokio::join!(read, decided) } => true,
        };
        if is_ready {
            self.notifier.send(Notify::Ready);
        }
        let mut changes = self.inputs.status_cache.changes();
        let period = self.notifier.watchdog().map(|limit| limit / FEEDS);
        let mut next_feed = period.map(|_| Instant::now());
        // The line is due after a change, and not more often than once a pause.
        let (mut earliest, mut due) = (Instant::now(), is_ready.then(Instant::now));
        let mut is_stopping = false;
        let started = self.started;
        loop {
            let shown = self.shows_outage;
            tokio::select! {
                // Cancel-safe, both: wait for a token.
                () = cancel.cancelled() => return,
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.notifier.send(Notify::Stopping);
                    self.notifier.send(Notify::Status("stopping; pods keep running".to_owned()));
                }
                // Cancel-safe: a sleep.
                () = sleep_until(next_feed) => {
                    self.feed();
                    next_feed = period.map(|period| Instant::now() + period);
                    due.get_or_insert(earliest);
                }
                // Cancel-safe: a sleep.
                () = sleep_until(due), if !is_stopping => {
                    due = None;
                    earliest = Instant::now() + STATUS_PAUSE;
                    self.show();
                }
                // These are cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = changes.changed() => { due.get_or_insert(earliest); }
                Ok(()) = self.inputs.manifests.changed() => { due.get_or_insert(earliest); }
                Ok(()) = self.inputs.api.changed() => { due.get_or_insert(earliest); }
                Ok(()) = self.inputs.config.changed() => { due.get_or_insert(earliest); }
                // Cancel-safe: only reads a watch. Each relist changes it, which matters only at an outage's begin and end.
                () = watching::becomes(&mut self.inputs.pleg, |health| is_away(health, started) != shown),
                    if due.is_none() => due = Some(earliest),
            }
        }
    }

    /// Feeds the watchdog unless a main loop is overdue, and asks the loops for the next time.
    fn feed(&mut self) {
        let now = Instant::now();
        self.overdue_now = self.inputs.heartbeats.overdue(now);
        if self.overdue_now.is_empty() {
            self.notifier.send(Notify::Watchdog);
        }
        if self.overdue.see(self.overdue_now.clone()) && !self.overdue_now.is_empty() {
            let loops = self.overdue_now.join(", ");
            tracing::error!(loops, "a main loop does not respond; the watchdog is not fed until it does");
        }
        self.inputs.heartbeats.ask(now);
    }

    /// Sends the status line if it changed.
    fn show(&mut self) {
        let line = status_line(&self.facts());
        if self.line.see(line.clone()) {
            self.notifier.send(Notify::Status(line));
        }
    }

    fn facts(&mut self) -> StatusFacts {
        let health = self.inputs.pleg.borrow().clone();
        self.shows_outage = is_away(&health, self.started);
        let age = jiff::SignedDuration::try_from(health.last_relist.elapsed()).unwrap_or_default();
        let since = self.inputs.clock.now().checked_sub(age).ok();
        let pods = self.inputs.status_cache.all();
        let is_running = |status| PodPhase::of(status) == Some(PodPhase::Running);
        StatusFacts {
            pods: pods.len(),
            running: pods.iter().filter(|entry| is_running(&entry.status)).count(),
            is_runtime_known: health.last_relist > self.started,
            runtime_away_since: since.filter(|_| self.shows_outage),
            are_manifests_read: self.inputs.manifests.borrow_and_update().ready,
            is_api_read: self.inputs.api.borrow_and_update().ready,
            config: *self.inputs.config.borrow_and_update(),
            overdue: self.overdue_now.clone(),
        }
    }
}

/// Whether the runtime does not respond, or has not responded since the daemon started.
fn is_away(health: &pleg::Health, started: Instant) -> bool {
    health.error.is_some() || health.last_relist <= started
}
