//! The slices of this node on the API server, from lists, watches and responses, whichever is newest: hostlet's, and those that
//! drivers published by themselves. Decides nothing.

use std::collections::{BTreeMap, HashSet};

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::encode::{ObservedSlice, Slice, Version};

/// A slice and what is known about it besides.
#[derive(Clone, Debug)]
struct Record {
    driver: String,
    slice: ObservedSlice,
    /// Since when it is known.
    since: Instant,
    /// hostlet deleted it, and the watch has not shown that yet.
    is_deleted: bool,
}

/// A slice that a driver published by itself.
#[derive(Clone, Debug)]
struct OwnSlice {
    driver: String,
    uid: String,
    since: Instant,
    /// hostlet deleted it, and the watch has not shown that yet.
    is_deleted: bool,
}

/// The slices of this node, of all drivers.
#[derive(Debug)]
pub(super) struct Observed {
    node: String,
    pool: String,
    version: Version,
    /// The slices of hostlet's pool by object name.
    records: BTreeMap<String, Record>,
    /// The slices of other pools by object name.
    own: BTreeMap<String, OwnSlice>,
    /// The list in progress: since when, and the names so far.
    listing: Option<(Instant, HashSet<String>)>,
    /// When the slices were last listed completely.
    listed: Option<Instant>,
}

impl Observed {
    pub(super) fn new(node: String, pool: String) -> Self {
        Self {
            node,
            pool,
            version: Version::V1,
            records: BTreeMap::new(),
            own: BTreeMap::new(),
            listing: None,
            listed: None,
        }
    }

    /// Another list begins, in this version of the API. Until it is complete, nothing is known for certain.
    pub(super) fn restart(&mut self, version: Version) {
        (self.version, self.listing, self.listed) = (version, None, None);
    }

    /// When the slices were listed completely; `None` before.
    pub(super) fn listed(&self) -> Option<Instant> {
        self.listed
    }

    /// The drivers of which hostlet published slices.
    pub(super) fn drivers(&self) -> HashSet<String> {
        self.records
            .values()
            .filter(|record| !record.is_deleted)
            .map(|record| record.driver.clone())
            .collect()
    }

    /// Name and UID of each slice that a driver published by itself.
    pub(super) fn own_of_driver(&self, driver: &str) -> Vec<(String, String)> {
        let is_there = |(_, slice): &(&String, &OwnSlice)| slice.driver == driver && !slice.is_deleted;
        self.own.iter().filter(is_there).map(|(name, slice)| (name.clone(), slice.uid.clone())).collect()
    }

    /// The slices of a driver that hostlet published, by name.
    pub(super) fn of_driver(&self, driver: &str) -> Vec<ObservedSlice> {
        let is_there = |record: &&Record| record.driver == driver && !record.is_deleted;
        self.records.values().filter(is_there).map(|record| record.slice.clone()).collect()
    }

    /// Takes an event of the watch. Returns the drivers that published slices by themselves, or whose slices of hostlet's pool
    /// changed otherwise than by hostlet.
    pub(super) fn watched(&mut self, event: Event<Slice>, now: Instant) -> HashSet<String> {
        match event {
            Event::Init => self.listing = Some((now, HashSet::new())),
            Event::InitApply(slice) => {
                if let (Some((_, names)), Some(name)) = (&mut self.listing, &slice.metadata.name) {
                    names.insert(name.clone());
                }
                return self.store(slice, now).into_iter().collect();
            }
            Event::Apply(slice) => return self.store(slice, now).into_iter().collect(),
            Event::Delete(slice) => {
                let name = slice.metadata.name.as_deref().unwrap_or_default();
                self.own.remove(name);
                return self
                    .records
                    .remove(name)
                    .filter(|record| !record.is_deleted)
                    .map(|record| record.driver)
                    .into_iter()
                    .collect();
            }
            Event::InitDone => {
                if let Some((began, names)) = self.listing.take() {
                    // What hostlet created meanwhile may be missing in the list.
                    self.records.retain(|name, record| names.contains(name) || record.since > began);
                    self.own.retain(|name, slice| names.contains(name) || slice.since > began);
                }
                self.listed = Some(now);
                let own = self.own.values().map(|slice| &slice.driver);
                return self.records.values().map(|record| &record.driver).chain(own).cloned().collect();
            }
        }
        HashSet::new()
    }

    /// Takes a slice from a response or the watch. Returns its driver if it differs from what was known.
    pub(super) fn store(&mut self, slice: Slice, now: Instant) -> Option<String> {
        if slice.spec.node_name.as_deref() != Some(&*self.node) {
            return None;
        }
        if slice.spec.pool.name != self.pool {
            return self.store_own(slice, now);
        }
        let driver = slice.spec.driver.clone();
        let slice = ObservedSlice::of(slice, self.version);
        let known = self.records.get(&slice.name);
        if known.is_some_and(|known| !slice.is_newer_than(&known.slice)) {
            return None;
        }
        let is_changed = known.is_none_or(|known| {
            let same_content = ObservedSlice { version: known.slice.version.clone(), ..slice.clone() };
            known.is_deleted || known.slice != same_content
        });
        let since = known.map_or(now, |known| known.since);
        // An object that was modified after hostlet deleted it has a finalizer, or is another one.
        let is_deleted = known.is_some_and(|known| known.is_deleted && known.slice.uid == slice.uid);
        let record = Record { driver: driver.clone(), slice, since, is_deleted };
        self.records.insert(record.slice.name.clone(), record);
        (is_changed && !is_deleted).then_some(driver)
    }

    /// Takes a slice that a driver published by itself; its content is of no interest.
    fn store_own(&mut self, slice: Slice, now: Instant) -> Option<String> {
        let name = slice.metadata.name.unwrap_or_default();
        let uid = slice.metadata.uid.unwrap_or_default();
        if self.own.get(&name).is_some_and(|known| known.uid == uid) {
            return None;
        }
        let driver = slice.spec.driver;
        self.own.insert(name, OwnSlice { driver: driver.clone(), uid, since: now, is_deleted: false });
        Some(driver)
    }

    /// hostlet deleted a slice.
    pub(super) fn deleted(&mut self, name: &str) {
        if let Some(record) = self.records.get_mut(name) {
            record.is_deleted = true;
        }
        if let Some(slice) = self.own.get_mut(name) {
            slice.is_deleted = true;
        }
    }

    /// A slice does not exist any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.records.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(name: &str, version: &str, generation: i64) -> Slice {
        named(name, version, generation, "n/hostlet")
    }

    fn named(name: &str, version: &str, generation: i64, pool: &str) -> Slice {
        let object = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": name, "uid": name, "resourceVersion": version},
            "spec": {"driver": "d", "nodeName": "n", "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1}},
        });
        hostlet_base::json::from_value(&object).unwrap()
    }

    fn generations(observed: &Observed) -> Vec<i64> {
        observed.of_driver("d").iter().map(|slice| slice.generation).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_version_of_our_slices_is_known() {
        let now = Instant::now();
        let mut observed = Observed::new("n".to_owned(), "n/hostlet".to_owned());
        let d = HashSet::from(["d".to_owned()]);
        let none = HashSet::new();
        assert_eq!(observed.watched(Event::Init, now), none);
        assert_eq!(observed.watched(Event::InitApply(slice("a", "1", 1)), now), d);
        assert_eq!(observed.listed(), None);
        assert_eq!(observed.watched(Event::InitDone, now), d);
        assert_eq!((observed.listed(), generations(&observed)), (Some(now), vec![1]));
        // A response is newer than an event that arrives late.
        assert_eq!(observed.store(slice("a", "5", 2), now), Some("d".to_owned()));
        assert_eq!(observed.watched(Event::Apply(slice("a", "3", 9)), now), none);
        assert_eq!(observed.watched(Event::Apply(slice("a", "5", 2)), now), none, "our own change");
        assert_eq!(generations(&observed), [2]);
        observed.deleted("a");
        assert_eq!((generations(&observed), observed.drivers()), (vec![], none.clone()));
        assert_eq!(observed.watched(Event::Delete(slice("a", "6", 2)), now), none);
        assert_eq!(observed.watched(Event::Apply(slice("b", "7", 2)), now), d);
        assert_eq!(observed.watched(Event::Delete(slice("b", "8", 2)), now), d, "somebody else deleted it");
    }

    #[tokio::test(start_paused = true)]
    async fn slices_that_a_driver_published_by_itself_are_known_by_name() {
        let now = Instant::now();
        let mut observed = Observed::new("n".to_owned(), "n/hostlet".to_owned());
        let (d, none) = (HashSet::from(["d".to_owned()]), HashSet::new());
        let own = |version| named("x", version, 1, "n");
        observed.watched(Event::Init, now);
        assert_eq!(observed.watched(Event::InitApply(own("1")), now), d);
        assert_eq!(observed.watched(Event::InitDone, now), d);
        assert_eq!(observed.watched(Event::Apply(own("2")), now), none, "the same object");
        assert_eq!(observed.own_of_driver("d"), [("x".to_owned(), "x".to_owned())]);
        assert_eq!((generations(&observed), observed.drivers()), (vec![], none.clone()), "not hostlet's");
        observed.deleted("x");
        assert_eq!(
            observed.watched(Event::Apply(own("3")), now),
            none,
            "what others write while it is deleted"
        );
        assert!(observed.own_of_driver("d").is_empty());
        observed.watched(Event::Delete(own("4")), now);
        assert_eq!(observed.watched(Event::Apply(own("5")), now), d, "it is there again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_replaces_what_was_known_before_it() {
        let start = Instant::now();
        let later = start + std::time::Duration::from_secs(1);
        let mut observed = Observed::new("n".to_owned(), "n/hostlet".to_owned());
        observed.store(slice("old", "1", 1), start);
        observed.watched(Event::Init, start);
        observed.store(slice("created-meanwhile", "9", 2), later);
        observed.watched(Event::InitApply(slice("listed", "3", 3)), later);
        observed.watched(Event::InitDone, later);
        assert_eq!(generations(&observed), [2, 3]);
    }
}
