//! Image pull back-off, per pod and image. Pure. Waits within the process use tokio's clock; stored entries carry
//! wall-clock times.

use std::collections::HashMap;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy, Moment, PodUid};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::ImageError;
use super::now::Now;

/// Upstream's values: 10 s, doubling up to 5 min, forgotten after twice the cap.
const POLICY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(10),
    max: Duration::from_secs(300),
    reset_after: Duration::from_secs(600),
};

/// Maximum number of entries. A node runs a few hundred pods at most; only a flood of short-lived pods whose images cannot
/// be pulled comes near it.
const MAX_ENTRIES: usize = 4096;

struct Entry {
    backoff: Backoff<Instant>,
    /// The runtime's error.
    message: String,
}

/// A failed pull in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredPull {
    image: String,
    delay_ms: u64,
    failed: Timestamp,
    message: String,
}

/// The failed pulls of all pods, keyed by pod and by image as written in the spec: a new image has no back-off.
#[derive(Default)]
pub(super) struct PullBackoffs {
    entries: HashMap<(PodUid, String), Entry>,
}

impl PullBackoffs {
    /// Resumes from the stored entries of each pod.
    pub(super) fn new(stored: Vec<(String, Vec<StoredPull>)>, now: Now) -> Self {
        let entries = stored.into_iter().flat_map(|(pod, pulls)| {
            let pod = PodUid::from(pod);
            pulls.into_iter().map(move |pull| {
                let backoff = resumed(&pull, now);
                ((pod.clone(), pull.image), Entry { backoff, message: pull.message })
            })
        });
        let live = entries.filter(|(_, entry)| !entry.backoff.expired(&POLICY, now.tokio));
        Self { entries: live.take(MAX_ENTRIES).collect() }
    }

    /// The entries to store for a pod, sorted.
    pub(super) fn stored(&self, pod: &PodUid, now: Now) -> Vec<StoredPull> {
        let of_pod = self.entries.iter().filter(|((of, _), _)| of == pod);
        let stored = of_pod.map(|((_, image), entry)| StoredPull {
            image: image.clone(),
            delay_ms: u64::try_from(entry.backoff.delay.as_millis()).unwrap_or(u64::MAX),
            failed: now.wall.checked_sub(now.tokio.since(entry.backoff.updated)).unwrap_or(now.wall),
            message: entry.message.clone(),
        });
        let mut stored: Vec<_> = stored.collect();
        stored.sort_by(|a, b| a.image.cmp(&b.image));
        stored
    }

    /// The error to report instead of pulling while the back-off lasts.
    pub(super) fn in_force(&self, pod: &PodUid, image: &str, now: Instant) -> Option<ImageError> {
        let entry = self.entries.get(&(pod.clone(), image.to_owned()))?;
        let remaining = entry.backoff.remaining(&POLICY, entry.backoff.updated, now)?;
        let failure = ImageError::of_pull(image, entry.message.clone());
        Some(ImageError::BackOff {
            image: image.to_owned(),
            last_reason: failure.reason(),
            last_message: failure.to_string(),
            remaining,
        })
    }

    /// Records a failed pull with the runtime's error.
    pub(super) fn failed(&mut self, pod: &PodUid, image: &str, message: String, now: Instant) {
        self.entries.retain(|_, entry| !entry.backoff.expired(&POLICY, now));
        let key = (pod.clone(), image.to_owned());
        let previous = self.entries.get(&key).map(|entry| entry.backoff);
        if previous.is_none() && self.entries.len() >= MAX_ENTRIES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.backoff.updated);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        let backoff = Backoff::next(previous, &POLICY, now, now);
        self.entries.insert(key, Entry { backoff, message });
    }
}

/// Converts a stored back-off to this process's clock. The wall clock may have been set in between: an entry further in the
/// future than its delay has expired, as everywhere ([`Backoff::remaining`]), and no wait becomes longer.
fn resumed(pull: &StoredPull, now: Now) -> Backoff<Instant> {
    let delay = Duration::from_millis(pull.delay_ms).min(POLICY.max);
    let stored = Backoff { delay, updated: pull.failed };
    let left = stored.remaining(&POLICY, pull.failed, now.wall).unwrap_or_default();
    let age = Moment::since(now.wall, pull.failed).max(delay - left);
    Backoff { delay, updated: now.tokio.checked_sub(age).unwrap_or(now.tokio) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;

    fn failure() -> String {
        "no such host".to_owned()
    }

    #[test]
    fn entries_expire_and_their_number_is_bounded() {
        let start = Instant::now();
        let mut backoffs = PullBackoffs::default();
        for n in 0..MAX_ENTRIES + 3 {
            let now = start + Duration::from_millis(n as u64);
            backoffs.failed(&PodUid::from(format!("uid{n}")), "img", failure(), now);
        }
        assert_eq!(backoffs.entries.len(), MAX_ENTRIES);
        let now = start + Duration::from_secs(5);
        assert!(backoffs.in_force(&"uid2".into(), "img", now).is_none(), "the oldest make way");
        assert!(backoffs.in_force(&"uid3".into(), "img", now).is_some());

        backoffs.failed(&"last".into(), "img", failure(), start + Duration::from_secs(700));
        assert_eq!(backoffs.entries.len(), 1);
    }

    const DAY: i64 = 86_400;

    fn remaining(backoffs: &PullBackoffs, now: Instant) -> Option<u64> {
        match backoffs.in_force(&"p".into(), "img", now)? {
            ImageError::BackOff { remaining, .. } => Some(remaining.as_secs()),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_restarted_daemon_waits_for_the_remainder_and_keeps_doubling() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut backoffs = PullBackoffs::default();
        for seconds in [0, 10, 30] {
            backoffs.failed(&"p".into(), "img", failure(), after(seconds));
        }
        let stored = backoffs.stored(&"p".into(), Now { tokio: after(33), wall: at(1033) });
        assert_eq!((stored.len(), stored[0].failed, stored[0].delay_ms), (1, at(1030), 40_000));
        // Another process, with an unrelated monotonic clock.
        let now = Instant::now();
        let mut next = PullBackoffs::new(vec![("p".to_owned(), stored)], Now { tokio: now, wall: at(1040) });
        assert_eq!(remaining(&next, now), Some(30));
        let message = next.in_force(&"p".into(), "img", now).unwrap().to_string();
        assert_eq!(message, "Back-off pulling image \"img\": ErrImagePull: no such host");
        let later = now + Duration::from_secs(30);
        assert_eq!(remaining(&next, later), None);
        next.failed(&"p".into(), "img", failure(), later);
        assert_eq!(remaining(&next, later), Some(80));
    }

    #[test]
    fn a_clock_change_never_prolongs_a_wait() {
        let now = Instant::now();
        let pull = |delay_ms| StoredPull {
            image: "img".to_owned(),
            delay_ms,
            failed: at(10 * DAY),
            message: failure(),
        };
        let left = |delay_ms, second| {
            let wall = at(second);
            let stored = vec![("p".to_owned(), vec![pull(delay_ms)])];
            remaining(&PullBackoffs::new(stored, Now { tokio: now, wall }), now)
        };
        assert_eq!(left(40_000, 10 * DAY), Some(40));
        assert_eq!(left(40_000, 10 * DAY - 5), Some(40));
        assert_eq!(left(40_000, 9 * DAY), None);
        assert_eq!(left(40_000, 11 * DAY), None);
        assert_eq!(left(u64::MAX, 10 * DAY), Some(300));
    }

    #[test]
    fn each_pod_and_image_backs_off_on_its_own() {
        let now = Instant::now();
        let mut backoffs = PullBackoffs::default();
        backoffs.failed(&"a".into(), "img", failure(), now);
        assert!(backoffs.in_force(&"a".into(), "img", now).is_some());
        assert!(backoffs.in_force(&"a".into(), "other", now).is_none());
        assert!(backoffs.in_force(&"b".into(), "img", now).is_none());
    }
}
