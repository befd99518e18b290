//! Wall-clock time, replaceable for tests that pause tokio's clock.

use jiff::Timestamp;

/// Tells the time of day. Time between two moments of this process is tokio's `Instant`; the wall clock is for what is
/// compared with timestamps of the runtime, or told to people.
#[derive(Clone, Debug)]
pub struct WallClock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    #[cfg(any(test, feature = "fakes"))]
    Tokio {
        base: Timestamp,
        start: tokio::time::Instant,
        /// Seconds by which it was set since.
        step: std::sync::Arc<std::sync::atomic::AtomicI64>,
    },
}

impl WallClock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `base` now and goes on with tokio's clock.
    #[cfg(any(test, feature = "fakes"))]
    pub fn of_tokio(base: Timestamp) -> Self {
        Self(Source::Tokio { base, start: tokio::time::Instant::now(), step: std::sync::Arc::default() })
    }

    /// Sets a clock of tokio's, and all its clones, so many seconds on or back.
    #[cfg(any(test, feature = "fakes"))]
    pub fn set(&self, seconds: i64) {
        if let Source::Tokio { step, .. } = &self.0 {
            step.fetch_add(seconds, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The present time.
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
