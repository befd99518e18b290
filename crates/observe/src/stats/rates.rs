//! How much CPU each cgroup uses now, from its measurements so far. Pure: `now` is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Length of time that a rate covers, up to twice as much: upstream's interval between two measurements.
const WINDOW: Duration = Duration::from_secs(10);
/// Shortest interval that gives a rate.
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest one: an average of more than that says nothing about now (upstream's `defaultCachePeriod`).
const LONGEST: Duration = Duration::from_secs(600);

/// A measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// CPU time so far, nanoseconds.
    total: u64,
}

#[derive(Clone, Copy, Debug)]
struct Samples {
    /// At least [`WINDOW`] older than `last`.
    base: Option<Sample>,
    last: Sample,
}

/// The earlier measurements of every cgroup.
#[derive(Debug, Default)]
pub(super) struct Rates {
    samples: BTreeMap<String, Samples>,
    /// Samples of the measurement that is being made.
    next: BTreeMap<String, Samples>,
}

impl Rates {
    /// The rate of the cgroup at `path`, which has used `total` nanoseconds, in billionths of a core; `None` without a usable
    /// earlier measurement.
    pub(super) fn rate(&mut self, path: &str, total: u64, now: Instant) -> Option<u64> {
        let this = Sample { at: now, total };
        // One cgroup may be part of a measurement twice, e.g. as the daemon's and as the runtime's.
        let known = self.next.get(path).or_else(|| self.samples.get(path)).copied();
        // A cgroup of the same name that was made anew has used less.
        let known = known.filter(|samples| samples.last.total <= total);
        let mut samples = known.unwrap_or(Samples { base: None, last: this });
        if now.saturating_duration_since(samples.last.at) >= WINDOW {
            samples = Samples { base: Some(samples.last), last: this };
        }
        let is_recent = |base: &Sample| now.saturating_duration_since(base.at) <= LONGEST;
        let base = samples.base.filter(is_recent).unwrap_or(samples.last);
        self.next.insert(path.to_owned(), samples);
        let elapsed = now.saturating_duration_since(base.at);
        if elapsed < SHORTEST {
            return None;
        }
        let used = u128::from(total.saturating_sub(base.total));
        let rate = used.saturating_mul(1_000_000_000).checked_div(elapsed.as_nanos())?;
        u64::try_from(rate).ok()
    }

    /// Ends a measurement: forgets the cgroups that were not part of it.
    pub(super) fn finish(&mut self) {
        self.samples = std::mem::take(&mut self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// A second of CPU time.
    const CPU: u64 = 1_000_000_000;

    #[test]
    fn a_rate_covers_ten_to_twenty_seconds() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let mut at = |seconds: u32, total: u64| {
            let rate = rates.rate("/a", total, start + SECOND * seconds);
            rates.finish();
            rate
        };
        assert_eq!(at(0, 5 * CPU), None, "one measurement is no rate");
        assert_eq!(at(1, 6 * CPU), Some(CPU), "half a window is better than nothing");
        assert_eq!(at(10, 10 * CPU), Some(CPU / 2));
        // Nothing was used since.
        assert_eq!(at(19, 10 * CPU), Some(CPU * 5 / 19));
        assert_eq!(at(20, 10 * CPU), Some(0));
    }

    #[test]
    fn a_cgroup_that_is_read_twice_has_the_same_rate_and_keeps_it() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        for seconds in 0..40 {
            let (total, now) = (CPU * seconds / 2, start + SECOND * u32::try_from(seconds).unwrap());
            let both = [rates.rate("/a", total, now), rates.rate("/a", total, now)];
            rates.finish();
            assert_eq!(both, [(seconds > 0).then_some(CPU / 2); 2], "after {seconds} s");
        }
    }

    #[test]
    fn a_new_cgroup_of_the_same_name_begins_anew() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        rates.rate("/a", 5 * CPU, start);
        rates.finish();
        assert_eq!(rates.rate("/a", CPU, start + SECOND * 15), None);
        rates.finish();
        assert_eq!(rates.rate("/a", 4 * CPU, start + SECOND * 18), Some(CPU));
    }

    #[test]
    fn an_average_of_an_hour_is_no_rate_and_what_is_gone_is_forgotten() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        rates.rate("/a", 0, start);
        rates.rate("/b", 0, start);
        rates.finish();
        assert_eq!(rates.rate("/a", CPU, start + SECOND * 3600), None);
        rates.finish();
        assert_eq!(rates.rate("/a", 2 * CPU, start + SECOND * 3602), Some(CPU / 2));
        assert_eq!(rates.rate("/b", CPU, start + SECOND * 3602), None);
    }
}
