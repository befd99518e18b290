//! Samples and their medians. Pure.

use std::time::Duration;

/// The median of durations, in milliseconds; NaN if there are none.
pub(crate) fn median_ms(samples: &[Duration]) -> f64 {
    median(&samples.iter().map(|sample| ms(*sample)).collect::<Vec<_>>())
}

/// The median of one part of samples, in milliseconds; NaN if there are none.
pub(crate) fn median_of<T>(samples: &[T], part: impl Fn(&T) -> Duration) -> f64 {
    median_ms(&samples.iter().map(part).collect::<Vec<_>>())
}

/// The median of numbers; NaN if there are none.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (half, 0) => f64::midpoint(sorted[half - 1], sorted[half]),
        (half, _) => sorted[half],
    }
}

/// The 90th percentile of durations, in milliseconds; NaN if there are none.
pub(crate) fn p90_ms(samples: &[Duration]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort();
    let rank = (sorted.len() * 9).div_ceil(10);
    sorted.get(rank.saturating_sub(1)).map_or(f64::NAN, |sample| ms(*sample))
}

/// A duration in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_odd_and_even() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(median_ms(&[Duration::from_millis(7)]), 7.0);
    }

    #[test]
    fn nine_of_ten() {
        let samples: Vec<Duration> = (1..=20).rev().map(Duration::from_millis).collect();
        assert_eq!(p90_ms(&samples), 18.0);
        assert_eq!(p90_ms(&samples[..1]), 20.0);
        assert!(p90_ms(&[]).is_nan());
    }
}
