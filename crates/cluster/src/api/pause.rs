//! How long a failed request waits before it is repeated: a back-off with jitter, or longer if the server says so. Pure.

use std::time::Duration;

/// The pause before a request is repeated after a back-off of `delay`. `random` is in 0..1: a failure of the server hits all nodes at
/// once, and they must not return together. A Retry-After is a minimum, and is spread for the same reason.
pub(crate) fn pause(delay: Duration, retry_after: Duration, random: f64) -> Duration {
    let spread = 0.5 + random / 2.0;
    delay.mul_f64(spread).max(retry_after.mul_f64(0.5 + spread))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pauses_are_spread() {
        let of = |random| pause(Duration::from_secs(10), Duration::ZERO, random).as_secs_f64();
        assert_eq!([of(0.0), of(0.5)], [5.0, 7.5]);
        let asked = |random| pause(Duration::ZERO, Duration::from_secs(10), random).as_secs_f64();
        assert_eq!([asked(0.0), asked(0.5)], [10.0, 12.5]);
    }

    proptest! {
        #[test]
        fn a_pause_is_neither_shorter_than_requested_nor_much_longer(
            delay in 0u64..100_000, retry_after in 0u64..100_000, random in 0.0f64..1.0,
        ) {
            let (delay, retry_after) = (Duration::from_millis(delay), Duration::from_millis(retry_after));
            let pause = pause(delay, retry_after, random);
            prop_assert!(pause >= retry_after && pause >= delay / 2);
            prop_assert!(pause <= delay.max(retry_after.mul_f64(1.5)));
        }
    }
}
