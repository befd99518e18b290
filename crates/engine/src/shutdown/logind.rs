//! The seam to systemd-logind (org.freedesktop.login1(5)): what hostlet needs of it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// A request to logind failed.
#[derive(Debug, thiserror::Error)]
pub enum LogindError {
    /// The system bus cannot be reached.
    #[error("cannot connect to the D-Bus system bus")]
    Connect(#[source] Box<zbus::Error>),
    /// A request failed.
    #[error("cannot {operation}")]
    Request {
        /// What was requested.
        operation: &'static str,
        /// D-Bus's error.
        source: Box<zbus::Error>,
    },
    /// There was no answer in time.
    #[error("no answer within {} s: cannot {operation}", waited.as_secs())]
    NoAnswer {
        /// What was requested.
        operation: &'static str,
        /// How long.
        waited: Duration,
    },
    /// The connection was closed.
    #[error("the D-Bus system bus closed the connection")]
    Closed,
}

/// A delay lock: while it exists, logind delays a shutdown, up to its `InhibitDelayMaxSec`. Dropping it releases it.
pub struct InhibitLock(#[expect(dead_code, reason = "held to be dropped")] Box<dyn Send + Sync>);

impl InhibitLock {
    /// A lock that is released by dropping `held`.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for InhibitLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InhibitLock")
    }
}

/// What logind reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A shutdown begins, or is cancelled: the signal `PrepareForShutdown`. [`LogindSession::is_preparing`] says which.
    PrepareForShutdown,
    /// Another logind process serves the bus now.
    Restarted,
}

/// systemd-logind of this host.
#[async_trait]
pub trait Logind: Send + Sync + 'static {
    /// Connects, and subscribes to what logind reports.
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError>;
}

/// A connection to logind.
#[async_trait]
pub trait LogindSession: Send + Sync {
    /// How long a delay lock delays a shutdown at most (`InhibitDelayMaxUSec`).
    async fn inhibit_delay_max(&self) -> Result<Duration, LogindError>;

    /// Whether a shutdown has begun (`PreparingForShutdown`).
    async fn is_preparing(&self) -> Result<bool, LogindError>;

    /// Takes a delay lock for shutdowns. Not idempotent: each call takes another one.
    async fn inhibit(&self) -> Result<InhibitLock, LogindError>;

    /// Has logind read its configuration again, which takes a moment after the answer.
    async fn reload(&self) -> Result<(), LogindError>;

    /// The next report. Cancel-safe.
    async fn next(&mut self) -> Result<SessionEvent, LogindError>;
}
