//! Decides which shims are leftovers: those without a sandbox or container for long enough. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use hostlet_host::Shim;
use hostlet_runtime::cri::Stored;

/// How long a shim may be unknown to containerd, which stores a container before it starts the shim.
const UNKNOWN: Duration = Duration::from_secs(60);
/// How long a shim may be known to containerd but not listed by the CRI plugin, which lists a sandbox once it runs, and
/// deletes one whose creation fails.
const UNLISTED: Duration = Duration::from_secs(300);

/// Since when shims without a sandbox or container of the CRI have been seen, by PID and start time.
#[derive(Debug, Default)]
pub(super) struct Sightings(BTreeMap<(i32, u64), Instant>);

impl Sightings {
    /// Records all such shims of one check, and returns the leftovers.
    pub(super) fn left_over(&mut self, unlisted: Vec<(Shim, Stored)>, now: Instant) -> Vec<(Shim, Stored)> {
        let key = |shim: &Shim| (shim.pid, shim.started);
        let seen =
            unlisted.iter().map(|(shim, _)| (key(shim), self.0.get(&key(shim)).copied().unwrap_or(now)));
        self.0 = seen.collect();
        let is_left_over = |(shim, stored): &(Shim, Stored)| {
            let since = self.0.get(&key(shim)).copied().unwrap_or(now);
            let patience = match stored {
                Stored::Nothing => UNKNOWN,
                Stored::OfCri => UNLISTED,
                // Another client's, in the CRI's namespace.
                Stored::OfOthers => return false,
            };
            now.duration_since(since) >= patience
        };
        unlisted.into_iter().filter(is_left_over).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_host::testing::shim;

    #[test]
    fn a_shim_is_a_leftover_after_it_was_seen_long_enough() {
        let start = Instant::now();
        for (stored, patience) in
            [(Stored::Nothing, Some(60)), (Stored::OfCri, Some(300)), (Stored::OfOthers, None)]
        {
            let mut sightings = Sightings::default();
            let mut left = |second| {
                let found = vec![(shim(1, 10), stored)];
                !sightings.left_over(found, start + Duration::from_secs(second)).is_empty()
            };
            let first = (0..1000).find(|second| left(*second));
            assert_eq!(first, patience, "{stored:?}");
        }
    }

    #[test]
    fn a_listed_shim_or_a_new_process_restarts_the_time() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut sightings = Sightings::default();
        let mut left = |shims: Vec<Shim>, second| {
            let found = shims.into_iter().map(|shim| (shim, Stored::Nothing)).collect();
            sightings.left_over(found, at(second)).len()
        };
        assert_eq!(left(vec![shim(1, 10)], 0), 0);
        assert_eq!(left(vec![], 50), 0);
        assert_eq!(left(vec![shim(1, 10)], 70), 0);
        assert_eq!(left(vec![shim(1, 11)], 130), 0, "another process has this PID");
        assert_eq!(left(vec![shim(1, 11), shim(2, 10)], 190), 1);
    }
}
