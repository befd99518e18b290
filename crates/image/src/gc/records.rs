//! When each image was first detected and last used. Kept over restarts, so that the least recently used image is known after one; a row
//! changes only when an image appears, and when its use begins or ends. Pure but for the store.

use std::collections::BTreeMap;

use hostlet_base::Moment;
use hostlet_runtime::cri::ImageInfo;
use hostlet_store::{Store, Table};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::users::ImageUsers;
use crate::now::Now;

/// When an image was last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum LastUse {
    /// Not since it was detected.
    Never,
    /// It was in use at the last look.
    Current,
    /// Its last use was seen at this time.
    Ended(Timestamp),
}

/// The stored part of a record.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRecord {
    first_detected: Timestamp,
    last_use: LastUse,
}

/// The record of an image.
#[derive(Clone, Debug)]
pub(super) struct ImageRecord {
    /// Its names with a tag, and those with a digest.
    pub(super) names: Vec<String>,
    /// Its size as the runtime reports it, bytes.
    pub(super) size: u64,
    /// Whether the runtime says that it must not be removed.
    pub(super) pinned: bool,
    stored: StoredRecord,
    /// The last look that found it in use, if this daemon did.
    seen_in_use: Option<Timestamp>,
    /// When it was first detected, by this process's clock.
    detected_at: Instant,
    /// Since when it is unused as far as this daemon knows: never before its start. As upstream, a restart begins a new maximum age, and
    /// a wall clock that is set changes no age.
    unused_since: Instant,
}

impl ImageRecord {
    /// When it was first detected.
    pub(super) fn first_detected(&self) -> Timestamp {
        self.stored.first_detected
    }

    /// When it was last used.
    pub(super) fn last_use(&self) -> LastUse {
        self.stored.last_use
    }

    /// The time since its first detection.
    pub(super) fn age(&self, now: Instant) -> std::time::Duration {
        now.saturating_duration_since(self.detected_at)
    }

    /// How long it has been unused as far as this daemon knows.
    pub(super) fn unused_for(&self, now: Instant) -> std::time::Duration {
        now.saturating_duration_since(self.unused_since)
    }

    fn new(stored: Option<StoredRecord>, now: Now) -> Self {
        let known = stored.map(|stored| Moment::since(now.wall, stored.first_detected));
        Self {
            names: Vec::new(),
            size: 0,
            pinned: false,
            stored: stored.unwrap_or(StoredRecord { first_detected: now.wall, last_use: LastUse::Never }),
            seen_in_use: None,
            detected_at: now.tokio.checked_sub(known.unwrap_or_default()).unwrap_or(now.tokio),
            unused_since: now.tokio,
        }
    }

    fn update(&mut self, is_used: bool, now: Now) {
        if is_used {
            self.stored.last_use = LastUse::Current;
            self.seen_in_use = Some(now.wall);
            self.unused_since = now.tokio;
            return;
        }
        self.stored.last_use = match self.stored.last_use {
            // An earlier daemon saw its use, and its end may be recent.
            LastUse::Current => LastUse::Ended(self.seen_in_use.unwrap_or(now.wall)),
            unchanged @ (LastUse::Never | LastUse::Ended(_)) => unchanged,
        };
    }
}

/// The records of the images that the runtime has.
pub(super) struct ImageRecords {
    records: BTreeMap<String, ImageRecord>,
    /// Of an earlier daemon, until the first look.
    earlier: BTreeMap<String, StoredRecord>,
    store: Store,
}

impl ImageRecords {
    /// Continues with the records in `store`.
    pub(super) fn new(store: Store) -> Self {
        let earlier = store.all(Table::ImageUses).into_iter().collect();
        Self { records: BTreeMap::new(), earlier, store }
    }

    /// Adopts the present images and their users.
    pub(super) fn observe(&mut self, images: &[ImageInfo], users: &ImageUsers, now: Now) {
        let mut present: BTreeMap<&str, (Vec<String>, &ImageInfo)> = BTreeMap::new();
        for image in images {
            let (names, _) = present.entry(&image.id).or_insert((Vec::new(), image));
            names.extend(image.tags.iter().chain(&image.digests).cloned());
        }
        let earlier = std::mem::take(&mut self.earlier);
        self.records.retain(|id, _| present.contains_key(id.as_str()));
        for (id, (names, image)) in &present {
            let new = || ImageRecord::new(earlier.get(*id).copied(), now);
            let record = self.records.entry((*id).to_owned()).or_insert_with(new);
            record.names.clone_from(names);
            record.size = image.size;
            record.pinned = image.pinned;
            record.update(users.contains_key(*id), now);
            self.store.put(Table::ImageUses, id, &record.stored);
        }
        self.store.retain(Table::ImageUses, |id| present.contains_key(id));
    }

    /// Forgets a removed image.
    pub(super) fn forget(&mut self, id: &str) {
        self.records.remove(id);
        self.store.remove(Table::ImageUses, id);
    }

    /// The records by the runtime's ID of the image.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &ImageRecord)> {
        self.records.iter().map(|(id, record)| (id.as_str(), record))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;
    /// Seconds.
    const TEN_YEARS: i64 = 10 * 365 * 24 * 3600;

    fn image(id: &str) -> ImageInfo {
        ImageInfo { id: id.to_owned(), size: 7, ..ImageInfo::default() }
    }

    fn users(ids: &[&str]) -> ImageUsers {
        ids.iter().map(|id| ((*id).to_owned(), Default::default())).collect()
    }

    /// Both clocks after a number of seconds; the wall clock may have been set.
    fn at(start: Instant, seconds: u64, wall: i64) -> Now {
        let wall = Timestamp::from_second(START.as_second() + wall).unwrap();
        Now { tokio: start + Duration::from_secs(seconds), wall }
    }

    fn uses(records: &ImageRecords) -> Vec<(String, LastUse)> {
        records.iter().map(|(id, record)| (id.to_owned(), record.last_use())).collect()
    }

    #[test]
    fn uses_are_seen_and_survive_a_restart() {
        let (store, start) = (Store::default(), Instant::now());
        let mut records = ImageRecords::new(store.clone());
        let images = [image("a"), image("b"), image("c")];
        records.observe(&images, &users(&["a", "b"]), at(start, 0, 0));
        records.observe(&images, &users(&["b"]), at(start, 300, 300));
        let expected = |b| {
            [("a", LastUse::Ended(START)), ("b", b), ("c", LastUse::Never)]
                .map(|(id, last)| (id.to_owned(), last))
                .to_vec()
        };
        assert_eq!(uses(&records), expected(LastUse::Current));

        // The end of b's use was not seen by anybody: the next daemon takes it to be recent.
        let mut next = ImageRecords::new(store.copy());
        let later = at(start, 900, 900);
        next.observe(&images, &users(&[]), later);
        assert_eq!(uses(&next), expected(LastUse::Ended(later.wall)));
        let (_, c) = next.iter().nth(2).unwrap();
        assert_eq!(c.first_detected(), START);
        assert_eq!(c.age(later.tokio), Duration::from_secs(900));
        assert_eq!(c.unused_for(later.tokio), Duration::ZERO, "a restart begins a new maximum age");

        next.observe(&images[..1], &users(&[]), later);
        next.forget("a");
        assert!(uses(&next).is_empty());
    }

    #[test]
    fn a_clock_that_is_set_changes_no_age() {
        let (store, start) = (Store::default(), Instant::now());
        let mut records = ImageRecords::new(store.clone());
        records.observe(&[image("a")], &users(&[]), at(start, 0, TEN_YEARS));
        records.observe(&[image("a")], &users(&[]), at(start, 60, 0));
        let (_, a) = records.iter().next().unwrap();
        assert_eq!(a.age(start + Duration::from_secs(60)), Duration::from_secs(60));
        assert_eq!(a.unused_for(start + Duration::from_secs(60)), Duration::from_secs(60));

        // Detected in the future: as if it were just detected.
        let mut next = ImageRecords::new(store.copy());
        next.observe(&[image("a")], &users(&[]), at(start, 60, 0));
        assert_eq!(next.iter().next().unwrap().1.age(start + Duration::from_secs(60)), Duration::ZERO);
    }

    #[test]
    fn an_image_that_is_listed_by_each_of_its_names_has_one_record() {
        let mut records = ImageRecords::new(Store::default());
        let named = |name: &str| ImageInfo { tags: vec![name.to_owned()], ..image("a") };
        records.observe(&[named("x:1"), named("y:1")], &users(&[]), at(Instant::now(), 0, 0));
        let all: Vec<_> = records.iter().map(|(_, record)| record.names.clone()).collect();
        assert_eq!(all, [["x:1", "y:1"]]);
    }
}
