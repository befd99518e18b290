//! Wall-clock time, replaceable for tests that pause tokio's clock.

use jiff::Timestamp;

/// Tells the time of day. Time between two moments of this process is tokio's `Instant`; the wall clock is for what is
/// compared with timestamps of the runtime, or told to people.
#[derive(Clone, Copy, Debug)]
pub struct WallClock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    System,
    #[cfg(any(test, feature = "fakes"))]
    Tokio {
        base: Timestamp,
        start: tokio::time::Instant,
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
        Self(Source::Tokio { base, start: tokio::time::Instant::now() })
    }

    /// The present time.
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::System => Timestamp::now(),
            #[cfg(any(test, feature = "fakes"))]
            Source::Tokio { base, start } => {
                let elapsed = jiff::SignedDuration::try_from(start.elapsed()).unwrap_or_default();
                base.saturating_add(elapsed).unwrap_or(base)
            }
        }
    }
}
