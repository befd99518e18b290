//! The wall clock, replaceable for tests with paused time.

use jiff::Timestamp;

/// The wall clock, for times that are compared with the runtime's or shown to users. Durations within the process use tokio's
/// `Instant`.
#[derive(Clone, Debug)]
pub struct WallClock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    #[cfg(any(test, feature = "fakes"))]
    Tokio {
        base: Timestamp,
        start: tokio::time::Instant,
        /// Total seconds by which the test set the clock forward or back.
        step: std::sync::Arc<std::sync::atomic::AtomicI64>,
    },
}

impl WallClock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that starts at `base` and follows tokio's clock.
    #[cfg(any(test, feature = "fakes"))]
    pub fn of_tokio(base: Timestamp) -> Self {
        Self(Source::Tokio { base, start: tokio::time::Instant::now(), step: std::sync::Arc::default() })
    }

    /// Sets a test clock and its clones forward or back by this many seconds.
    #[cfg(any(test, feature = "fakes"))]
    pub fn set(&self, seconds: i64) {
        if let Source::Tokio { step, .. } = &self.0 {
            step.fetch_add(seconds, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            #[cfg(any(test, feature = "fakes"))]
            Source::Tokio { base, start, step } => {
                let elapsed = jiff::SignedDuration::try_from(start.elapsed()).unwrap_or_default();
                let set = jiff::SignedDuration::from_secs(step.load(std::sync::atomic::Ordering::Relaxed));
                base.saturating_add(elapsed + set).unwrap_or(*base)
            }
        }
    }
}
