//! Which images go, in which order, and when to stop. Pure. The rules are upstream's (`pkg/kubelet/images`), with two that are more
//! careful: an image that was never used counts as unused from its detection on, and no image goes once the filesystem itself shows
//! enough space, since the sizes of images are often those of compressed layers.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hostlet_base::settings::ImageGcPolicy;
use jiff::Timestamp;

use super::disk::ImageDisk;
use super::records::{ImageRecords, LastUse};
use super::users::ImageUsers;
use crate::now::Now;

/// Why an unused image is never removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The runtime says that it must not be, or makes sandboxes from it.
    Pinned,
    /// Its archive is in `imagePreloadDir`: it would be imported again.
    Archive,
}

/// When an unused image goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Never.
    Kept(Keep),
    /// When its filesystem needs the space, or somebody asks.
    Removable {
        /// Not before this time, which is `imageMinimumGCAge` after its detection; `None` if that is over.
        from: Option<Timestamp>,
        /// In any case by the first pass after this time, which `imageMaximumGCAge` sets; `None` without it.
        expires: Option<Timestamp>,
    },
}

/// An image that nothing uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The runtime's ID.
    pub(super) id: String,
    /// Its names with a tag or a digest.
    pub(super) names: Vec<String>,
    /// Its size as the runtime reports it, bytes.
    pub(super) size: u64,
    pub(super) first_detected: Timestamp,
    pub(super) last_used: Option<Timestamp>,
    /// The time since its detection.
    pub(super) age: Duration,
    /// How long it has been unused.
    pub(super) unused_for: Duration,
    pub(super) keep: Option<Keep>,
}

impl Candidate {
    /// Whether it may be removed for its space.
    pub(super) fn is_removable(&self, policy: &ImageGcPolicy) -> bool {
        self.keep.is_none() && self.age >= policy.minimum_age
    }

    /// Whether it has been unused for longer than images may be.
    pub(super) fn has_expired(&self, policy: &ImageGcPolicy) -> bool {
        self.keep.is_none() && policy.maximum_age.is_some_and(|most| self.unused_for > most)
    }

    /// When it goes.
    pub(super) fn fate(&self, policy: &ImageGcPolicy, now: Timestamp) -> Fate {
        if let Some(keep) = self.keep {
            return Fate::Kept(keep);
        }
        let after = |wait: Duration| now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let wait = policy.minimum_age.saturating_sub(self.age);
        Fate::Removable {
            from: (!wait.is_zero()).then(|| after(wait)),
            expires: policy.maximum_age.map(|most| after(most.saturating_sub(self.unused_for))),
        }
    }
}

/// The images that nothing uses, in the order in which they go: the least recently used first, then the first detected. `archives` are the
/// names and IDs of images that archives bring.
pub(super) fn candidates(
    records: &ImageRecords,
    users: &ImageUsers,
    archives: &BTreeSet<String>,
    now: Now,
) -> Vec<Candidate> {
    let unused = records.iter().filter(|(id, _)| !users.contains_key(*id));
    let mut candidates: Vec<Candidate> = unused
        .map(|(id, record)| {
            let is_of_archive =
                archives.contains(id) || record.names.iter().any(|name| archives.contains(name));
            Candidate {
                id: id.to_owned(),
                names: record.names.clone(),
                size: record.size,
                first_detected: record.first_detected(),
                last_used: match record.last_use() {
                    LastUse::Never => None,
                    // Not among the unused ones.
                    LastUse::Current => Some(now.wall),
                    LastUse::Ended(at) => Some(at),
                },
                age: record.age(now.tokio),
                unused_for: record.unused_for(now.tokio),
                keep: match (record.pinned, is_of_archive) {
                    (true, _) => Some(Keep::Pinned),
                    (false, true) => Some(Keep::Archive),
                    (false, false) => None,
                },
            }
        })
        .collect();
    candidates
        .sort_by(|a, b| (a.last_used, a.first_detected, &a.id).cmp(&(b.last_used, b.first_detected, &b.id)));
    candidates
}

/// How much the image filesystem lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    /// What images have to free, bytes.
    pub(super) wanted: u64,
    /// What must be available afterwards, bytes.
    pub(super) available: u64,
}

impl Shortage {
    /// Nothing is enough.
    pub(super) const ALL: Self = Self { wanted: u64::MAX, available: u64::MAX };

    /// What the filesystem lacks; `None` below the high threshold, and with one of 100 %, which switches this off.
    pub(super) fn of(disk: &ImageDisk, policy: &ImageGcPolicy) -> Option<Self> {
        if policy.high_percent >= 100 || disk.used_percent() < u64::from(policy.high_percent) {
            return None;
        }
        let available = disk.available_at(policy.low_percent);
        Some(Self { wanted: available.saturating_sub(disk.available), available })
    }
}

/// The removal of images until there is enough space.
#[derive(Debug)]
pub(super) struct SpaceRun {
    shortage: Shortage,
    queue: VecDeque<Candidate>,
    freed: u64,
    is_reached: bool,
}

impl SpaceRun {
    /// Removes those of `candidates` that may be removed, in their order.
    pub(super) fn new(shortage: Shortage, candidates: Vec<Candidate>, policy: &ImageGcPolicy) -> Self {
        let queue = candidates.into_iter().filter(|image| image.is_removable(policy)).collect();
        Self { shortage, queue, freed: 0, is_reached: shortage.wanted == 0 }
    }

    /// The next image to remove; `None` once there is enough space, or no other image.
    pub(super) fn next(&mut self) -> Option<Candidate> {
        if self.is_reached { None } else { self.queue.pop_front() }
    }

    /// Records the removal of an image of this size, and what is available now, if that is known.
    pub(super) fn removed(&mut self, size: u64, available: Option<u64>) {
        self.freed = self.freed.saturating_add(size);
        self.is_reached = self.freed >= self.shortage.wanted
            || available.is_some_and(|available| available >= self.shortage.available);
    }

    /// The sizes of the removed images together, bytes.
    pub(super) fn freed(&self) -> u64 {
        self.freed
    }

    /// Whether there is enough space.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
