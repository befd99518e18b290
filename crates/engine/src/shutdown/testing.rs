//! An in-memory logind, scripted by a test.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::logind::{InhibitLock, Logind, LogindError, LogindSession, SessionEvent};

/// logind of one host. Cheap to clone; clones are one.
#[derive(Clone)]
pub(crate) struct FakeLogind(Arc<State>);

struct State {
    inner: Mutex<Inner>,
    /// How many locks are held.
    locks: watch::Sender<usize>,
}

struct Inner {
    delay: Duration,
    is_preparing: bool,
    is_away: bool,
    refuses_locks: bool,
    reloads: u32,
    connects: u32,
    /// After a reload: how long until the file applies, and which.
    config: Option<(Duration, PathBuf)>,
    applies_at: Option<Instant>,
    sessions: Vec<mpsc::Sender<Option<SessionEvent>>>,
}

impl FakeLogind {
    /// A logind that delays a shutdown this long.
    pub(crate) fn new(delay: Duration) -> Self {
        let inner = Inner {
            delay,
            is_preparing: false,
            is_away: false,
            refuses_locks: false,
            reloads: 0,
            connects: 0,
            config: None,
            applies_at: None,
            sessions: Vec::new(),
        };
        Self(Arc::new(State { inner: Mutex::new(inner), locks: watch::Sender::new(0) }))
    }

    /// Begins a shutdown, or cancels it.
    pub(super) fn prepare(&self, is_preparing: bool) {
        self.0.inner.lock().is_preparing = is_preparing;
        self.send(Some(SessionEvent::PrepareForShutdown));
    }

    /// The same without a signal, as during a loss of the bus.
    pub(super) fn prepare_silently(&self, is_preparing: bool) {
        self.0.inner.lock().is_preparing = is_preparing;
    }

    /// Is replaced by another process.
    pub(super) fn restart(&self, delay: Duration) {
        self.0.inner.lock().delay = delay;
        self.send(Some(SessionEvent::Restarted));
    }

    /// Closes all connections; while away, none can be made.
    pub(super) fn set_away(&self, is_away: bool) {
        self.0.inner.lock().is_away = is_away;
        if is_away {
            self.send(None);
            self.0.inner.lock().sessions.clear();
        }
    }

    /// Grants no locks.
    pub(super) fn refuse_locks(&self) {
        self.0.inner.lock().refuses_locks = true;
    }

    /// Applies this file so long after a reload.
    pub(super) fn applies_after(&self, pause: Duration, file: PathBuf) {
        self.0.inner.lock().config = Some((pause, file));
    }

    pub(super) fn reloads(&self) -> u32 {
        self.0.inner.lock().reloads
    }

    pub(super) fn connects(&self) -> u32 {
        self.0.inner.lock().connects
    }

    /// How many locks are held.
    pub(super) fn locks(&self) -> watch::Receiver<usize> {
        self.0.locks.subscribe()
    }

    fn send(&self, event: Option<SessionEvent>) {
        for session in &self.0.inner.lock().sessions {
            // A session that was dropped misses nothing.
            let _ = session.try_send(event);
        }
    }
}

struct Held(FakeLogind);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.locks.send_modify(|locks| *locks -= 1);
    }
}

struct FakeSession {
    logind: FakeLogind,
    events: mpsc::Receiver<Option<SessionEvent>>,
}

#[async_trait]
impl Logind for FakeLogind {
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError> {
        let mut inner = self.0.inner.lock();
        inner.connects += 1;
        if inner.is_away {
            return Err(LogindError::Closed);
        }
        let (sender, events) = mpsc::channel(16);
        inner.sessions.push(sender);
        Ok(Box::new(FakeSession { logind: self.clone(), events }))
    }
}

#[async_trait]
impl LogindSession for FakeSession {
    async fn inhibit_delay_max(&self) -> Result<Duration, LogindError> {
        let mut inner = self.logind.0.inner.lock();
        if inner.applies_at.is_some_and(|at| at <= Instant::now())
            && let Some((_, file)) = &inner.config
        {
            let text = std::fs::read_to_string(file).unwrap();
            let seconds = text.lines().find_map(|line| line.strip_prefix("InhibitDelayMaxSec="));
            inner.delay = Duration::from_secs(seconds.unwrap().parse().unwrap());
        }
        Ok(inner.delay)
    }

    async fn is_preparing(&self) -> Result<bool, LogindError> {
        Ok(self.logind.0.inner.lock().is_preparing)
    }

    async fn inhibit(&self) -> Result<InhibitLock, LogindError> {
        if self.logind.0.inner.lock().refuses_locks {
            return Err(LogindError::NoAnswer { operation: "take a lock", waited: Duration::ZERO });
        }
        self.logind.0.locks.send_modify(|locks| *locks += 1);
        Ok(InhibitLock::new(Held(self.logind.clone())))
    }

    async fn reload(&self) -> Result<(), LogindError> {
        let mut inner = self.logind.0.inner.lock();
        inner.reloads += 1;
        inner.applies_at = inner.config.as_ref().map(|(pause, _)| Instant::now() + *pause);
        Ok(())
    }

    async fn next(&mut self) -> Result<SessionEvent, LogindError> {
        self.events.recv().await.flatten().ok_or(LogindError::Closed)
    }
}
