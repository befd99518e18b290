//! Which pods must wait before an image is pulled for them again. Pure; in memory only, as upstream: a daemon that
//! restarts tries at once.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ImageError;
use crate::types::{Backoff, BackoffPolicy, PodUid};

/// Upstream's figures: 10 s doubling to 5 min, forgotten after twice the cap.
const POLICY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(10),
    max: Duration::from_secs(300),
    reset_after: Duration::from_secs(600),
};

/// Most failures kept. A node has at most some hundred pods; only a flood of short-lived ones, each with an image that
/// cannot be pulled, comes near.
const MAX_ENTRIES: usize = 4096;

struct Entry {
    backoff: Backoff<Instant>,
    failure: ImageError,
}

/// The failed pulls of all pods, by pod and by image as the spec names it: a pod with a new image starts afresh.
#[derive(Default)]
pub(super) struct PullBackoffs {
    entries: HashMap<(PodUid, String), Entry>,
}

impl PullBackoffs {
    /// The error to report instead of pulling, while it is too early.
    pub(super) fn in_force(&self, pod: &PodUid, image: &str, now: Instant) -> Option<ImageError> {
        let entry = self.entries.get(&(pod.clone(), image.to_owned()))?;
        let remaining = entry.backoff.remaining(&POLICY, entry.backoff.updated, now)?;
        Some(ImageError::BackOff {
            image: image.to_owned(),
            last_reason: entry.failure.reason(),
            last_message: entry.failure.to_string(),
            remaining,
        })
    }

    /// A pull failed.
    pub(super) fn failed(&mut self, pod: &PodUid, image: &str, failure: ImageError, now: Instant) {
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
        self.entries.insert(key, Entry { backoff, failure });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> ImageError {
        ImageError::Pull { message: "no such host".to_owned() }
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

    #[test]
    fn pods_and_images_wait_apart() {
        let now = Instant::now();
        let mut backoffs = PullBackoffs::default();
        backoffs.failed(&"a".into(), "img", failure(), now);
        assert!(backoffs.in_force(&"a".into(), "img", now).is_some());
        assert!(backoffs.in_force(&"a".into(), "other", now).is_none());
        assert!(backoffs.in_force(&"b".into(), "img", now).is_none());
    }
}
