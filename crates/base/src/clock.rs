//! The wall clock, replaceable for tests with paused time, and what remains right when somebody sets it.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// The wall clock, for times that are compared with the runtime's or shown to users. Durations within the process use tokio's
/// `Instant`; those from times of the wall clock use [`WallClock::steady`] or [`WallClock::uptime`], because the wall clock may be set
/// by years: a host without a battery boots in 1970 and waits for NTP.
#[derive(Clone, Debug)]
pub struct WallClock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    #[cfg(any(test, feature = "fakes"))]
    Tokio(TokioClock),
}

/// Both clocks when this process first looked at them.
struct Began {
    wall: Timestamp,
    uptime: Duration,
}

fn began() -> &'static Began {
    static BEGAN: OnceLock<Began> = OnceLock::new();
    BEGAN.get_or_init(|| Began { wall: Timestamp::now(), uptime: uptime() })
}

/// The time since the boot of the host, including the time that it was suspended.
fn uptime() -> Duration {
    let since_boot = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(since_boot.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(since_boot.tv_nsec).unwrap_or_default())
}

fn after(base: Timestamp, elapsed: Duration) -> Timestamp {
    let elapsed = SignedDuration::try_from(elapsed).unwrap_or_default();
    base.saturating_add(elapsed).unwrap_or(base)
}

impl WallClock {
    /// The system's clock.
    pub fn system() -> Self {
        began();
        Self(Source::System)
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            #[cfg(any(test, feature = "fakes"))]
            Source::Tokio(clock) => clock.now(),
        }
    }

    /// What the current time would be if nobody had set the clock since this process began. It never steps, so durations between
    /// two of its times are real ones. It must not be shown, or compared with times that others recorded.
    pub fn steady(&self) -> Timestamp {
        match &self.0 {
            Source::System => after(began().wall, uptime().saturating_sub(began().uptime)),
            #[cfg(any(test, feature = "fakes"))]
            Source::Tokio(clock) => clock.steady(),
        }
    }

    /// How far the clock has been set forward since this process began, negative if back.
    pub fn set_by(&self) -> SignedDuration {
        self.now().duration_since(self.steady())
    }

    /// The time since the host booted: what runs on it has run no longer. Continues over a restart of the process.
    pub fn uptime(&self) -> Duration {
        match &self.0 {
            Source::System => uptime(),
            #[cfg(any(test, feature = "fakes"))]
            Source::Tokio(clock) => clock.uptime(),
        }
    }
}

/// How long the host of a test has run when its clock begins.
#[cfg(any(test, feature = "fakes"))]
const UPTIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// A clock that follows tokio's.
#[cfg(any(test, feature = "fakes"))]
#[derive(Clone, Debug)]
struct TokioClock {
    base: Timestamp,
    start: tokio::time::Instant,
    /// Total seconds by which tests set the clock forward or back.
    step: std::sync::Arc<std::sync::atomic::AtomicI64>,
    /// The same when the process began.
    first_step: i64,
    /// When the host was booted by the test.
    boot: std::sync::Arc<parking_lot::Mutex<Option<tokio::time::Instant>>>,
}

#[cfg(any(test, feature = "fakes"))]
impl TokioClock {
    fn at_step(&self, step: i64) -> Timestamp {
        let now = after(self.base, self.start.elapsed());
        now.saturating_add(SignedDuration::from_secs(step)).unwrap_or(now)
    }

    fn step(&self) -> i64 {
        self.step.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn now(&self) -> Timestamp {
        self.at_step(self.step())
    }

    fn steady(&self) -> Timestamp {
        self.at_step(self.first_step)
    }

    fn uptime(&self) -> Duration {
        let boot = *self.boot.lock();
        boot.map_or_else(|| UPTIME + self.start.elapsed(), |boot| boot.elapsed())
    }
}

#[cfg(any(test, feature = "fakes"))]
impl WallClock {
    /// A clock that starts at `base` and follows tokio's clock.
    pub fn of_tokio(base: Timestamp) -> Self {
        let start = tokio::time::Instant::now();
        let (step, boot) = Default::default();
        Self(Source::Tokio(TokioClock { base, start, step, first_step: 0, boot }))
    }

    /// The test clock as a process sees it that begins now.
    pub fn of_new_process(&self) -> Self {
        match &self.0 {
            Source::System => self.clone(),
            Source::Tokio(clock) => {
                Self(Source::Tokio(TokioClock { first_step: clock.step(), ..clock.clone() }))
            }
        }
    }

    /// Sets a test clock and its clones forward or back by this many seconds.
    pub fn set(&self, seconds: i64) {
        if let Source::Tokio(clock) = &self.0 {
            clock.step.fetch_add(seconds, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Boots the host of a test clock and its clones now.
    pub fn reboot(&self) {
        if let Source::Tokio(clock) = &self.0 {
            *clock.boot.lock() = Some(tokio::time::Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const TEN_YEARS: i64 = 10 * 365 * 86_400;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_changes_neither_the_steady_time_nor_the_uptime() {
        let clock = WallClock::of_tokio(at(1000));
        for step in [TEN_YEARS, -2 * TEN_YEARS] {
            clock.set(step);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!((clock.now(), clock.steady()), (at(1060 - TEN_YEARS), at(1060)));
        assert_eq!(clock.set_by(), SignedDuration::from_secs(-TEN_YEARS));
        assert_eq!(clock.uptime(), UPTIME + Duration::from_secs(60));
        let next = clock.of_new_process();
        assert_eq!((next.steady(), next.set_by()), (next.now(), SignedDuration::ZERO));
        clock.reboot();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(next.uptime(), Duration::from_secs(7));
    }

    #[test]
    fn the_clocks_of_the_system_agree_unless_it_is_set() {
        let clock = WallClock::system();
        assert!(clock.set_by().abs() < SignedDuration::from_hours(1));
        assert!(clock.uptime() > Duration::ZERO);
    }
}
