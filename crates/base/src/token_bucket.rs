//! A token bucket: a burst, then a rate. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket that starts full.
#[derive(Debug)]
pub struct TokenBucket {
    /// The time in which one token is added.
    refill: Duration,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A bucket of `burst` tokens, to which one is added every `refill`, which is not zero.
    pub fn new(burst: u32, refill: Duration, now: Instant) -> Self {
        let burst = f64::from(burst);
        Self { refill, burst, tokens: burst, filled: now }
    }

    /// Takes a token; false if there is none.
    pub fn try_take(&mut self, now: Instant) -> bool {
        self.take_or_wait(now).is_ok()
    }

    /// Takes a token; without one, returns how long until there is one.
    pub fn take_or_wait(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.filled);
        self.tokens = (self.tokens + passed.as_secs_f64() / self.refill.as_secs_f64()).min(self.burst);
        self.filled = self.filled.max(now);
        let missing = 1.0 - self.tokens;
        if missing > 0.0 {
            // At least a nanosecond, so that a caller that sleeps for it makes progress.
            return Err(self.refill.mul_f64(missing).max(Duration::from_nanos(1)));
        }
        self.tokens -= 1.0;
        Ok(())
    }

    /// When tokens were last asked for.
    pub fn last_use(&self) -> Instant {
        self.filled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(3, Duration::from_millis(500), start);
        assert_eq!([(); 4].map(|()| bucket.try_take(start)), [true, true, true, false]);
        let later = start + Duration::from_millis(500);
        assert_eq!([(); 2].map(|()| bucket.try_take(later)), [true, false]);
        assert_eq!(bucket.last_use(), later);
        assert_eq!(bucket.take_or_wait(later), Err(Duration::from_millis(500)));
    }

    proptest! {
        /// In any time span, no more pass than the burst and the rate allow.
        #[test]
        fn the_rate_holds(rate in 1u32..20, burst in 1u32..20, gaps in proptest::collection::vec(0u64..400, 1..100)) {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(burst, Duration::from_secs(1) / rate, start);
            let (mut now, mut passed) = (start, 0u32);
            for gap in gaps {
                now += Duration::from_millis(gap);
                passed += u32::from(bucket.try_take(now));
                let allowed = f64::from(burst) + f64::from(rate) * (now - start).as_secs_f64();
                prop_assert!(f64::from(passed) <= allowed + 1e-3);
            }
        }
    }
}
