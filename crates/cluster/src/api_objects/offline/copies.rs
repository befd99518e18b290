//! All copies, which of them are in use, and which stand in for the API server's word. Pure: says what to write and what to remove.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;
use hostlet_store::Table;
use jiff::Timestamp;

use super::copy::{CopySubject, CopyValue, StoredCopy};

/// Maximum size of all copies in bytes: the store has all rows in memory, and does not open a file of more than 256 MiB.
pub(super) const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The copies.
#[derive(Debug, Default)]
pub(super) struct Copies {
    stored: BTreeMap<CopySubject, StoredCopy>,
    /// Their size.
    bytes: usize,
    /// What admitted pods use.
    used: BTreeSet<CopySubject>,
    /// The admitted pods. A token of one stays: it may be for a CSI driver, and it is not known yet after a start what that wants.
    alive: BTreeSet<PodUid>,
    /// Rows that cannot be opened, with the reason. They are not touched before they are replaced or their last user is removed.
    unreadable: BTreeMap<(Table, String), String>,
    /// Copies on which pods rely while the API server has not answered.
    served: BTreeSet<CopySubject>,
    /// What is in use and not stored, because all copies would be too large.
    omitted: BTreeSet<CopySubject>,
}

impl Copies {
    /// Adds a copy that an earlier daemon stored, unless the API server has sent a version since.
    pub(super) fn restore(&mut self, subject: CopySubject, copy: StoredCopy) {
        if !self.stored.contains_key(&subject) {
            self.insert(subject, copy);
        }
    }

    /// Adds rows that cannot be opened.
    pub(super) fn add_unreadable(&mut self, table: Table, key: String, reason: String) {
        self.unreadable.insert((table, key), reason);
    }

    /// Sets what admitted pods use, and which they are.
    pub(super) fn set_used(&mut self, used: BTreeSet<CopySubject>, alive: BTreeSet<PodUid>) {
        (self.used, self.alive) = (used, alive);
    }

    /// The API server has sent this. Returns the copy to write, if it is to be written.
    pub(super) fn put(
        &mut self,
        subject: &CopySubject,
        value: CopyValue,
        now: Timestamp,
    ) -> Option<&StoredCopy> {
        self.served.remove(subject);
        if !self.used.contains(subject) {
            return None;
        }
        if let Some(known) = self.stored.get_mut(subject)
            && known.value == value
        {
            // The same content, so that both are in memory once.
            known.value = value;
            return None;
        }
        let former = self.stored.get(subject).map_or(0, |copy| copy.value.size());
        if self.bytes - former + value.size() > MOST_BYTES {
            // The former version stays, which is better than none.
            self.omitted.insert(subject.clone());
            return None;
        }
        self.omitted.remove(subject);
        self.unreadable.remove(&(subject.table(), subject.row_key()));
        self.insert(subject.clone(), StoredCopy { sent_at: now, value });
        self.stored.get(subject)
    }

    fn insert(&mut self, subject: CopySubject, copy: StoredCopy) {
        self.bytes += copy.value.size();
        if let Some(former) = self.stored.insert(subject, copy) {
            self.bytes -= former.value.size();
        }
    }

    /// The API server does not have this any more. Its row is to be removed.
    pub(super) fn remove(&mut self, subject: &CopySubject) {
        if let Some(copy) = self.stored.remove(subject) {
            self.bytes -= copy.value.size();
        }
        self.served.remove(subject);
        self.omitted.remove(subject);
        self.unreadable.remove(&(subject.table(), subject.row_key()));
    }

    /// Removes what no admitted pod uses. Returns the rows to remove.
    pub(super) fn remove_unused(&mut self) -> Vec<(Table, String)> {
        let Self { stored, used, alive, unreadable, served, omitted, .. } = self;
        let is_kept = |subject: &CopySubject| {
            used.contains(subject) || subject.pod().is_some_and(|pod| alive.contains(&pod))
        };
        served.retain(is_kept);
        omitted.retain(is_kept);
        let unused = stored.extract_if(.., |subject, _| !is_kept(subject));
        let mut rows: Vec<(Table, String)> = Vec::new();
        for (subject, copy) in unused {
            self.bytes -= copy.value.size();
            rows.push((subject.table(), subject.row_key()));
        }
        if !unreadable.is_empty() {
            let in_use: BTreeSet<_> =
                used.iter().map(|subject| (subject.table(), subject.row_key())).collect();
            rows.extend(unreadable.extract_if(.., |row, _| !in_use.contains(row)).map(|(row, _)| row));
        }
        rows
    }

    /// The copy of this, which stands in for the API server's word from now on.
    pub(super) fn serve(&mut self, subject: &CopySubject) -> Option<StoredCopy> {
        let copy = self.stored.get(subject)?.clone();
        self.served.insert(subject.clone());
        Some(copy)
    }

    /// All copies.
    pub(super) fn all(&self) -> impl Iterator<Item = (&CopySubject, &StoredCopy)> {
        self.stored.iter()
    }

    /// Those of `subjects` that stand in for the API server's word.
    pub(super) fn served_of(
        &self,
        subjects: impl Iterator<Item = CopySubject>,
    ) -> impl Iterator<Item = (CopySubject, &StoredCopy)> {
        let served = subjects.filter(|subject| self.served.contains(subject));
        served.filter_map(|subject| self.stored.get(&subject).map(|copy| (subject, copy)))
    }

    /// Numbers of copies: stored, standing in for the API server's word, and unreadable.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.stored.len(), self.served.len(), self.unreadable.len()]
    }

    /// What is wrong with the copies, a sentence each.
    pub(super) fn problems(&self) -> Vec<String> {
        let unreadable = self.unreadable.iter().next().map(|((_, key), reason)| {
            format!(
                "{} stored copies of ConfigMaps, Secrets, tokens or trust bundles cannot be opened (the first is {key}: {reason}); pods that use \
                 them do not start while the API server is away, until it has sent them again",
                self.unreadable.len()
            )
        });
        let omitted = self.omitted.first().map(|first| {
            format!(
                "{} ConfigMaps, Secrets or trust bundles are not stored, because all of them would take more than {} MiB (the first is {first}); pods \
                 that use them do not start after a reboot while the API server is away",
                self.omitted.len(),
                MOST_BYTES / 1024 / 1024
            )
        });
        unreadable.into_iter().chain(omitted).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hostlet_pod::objects::{Object, ObjectRef};

    use super::*;

    fn subject(name: &str) -> CopySubject {
        CopySubject::Object(ObjectRef::secret(name, "ns"))
    }

    fn value(content: &str) -> CopyValue {
        let binary = [("k".to_owned(), content.as_bytes().to_vec())].into();
        CopyValue::Object(Arc::new(Object { binary, ..Object::default() }))
    }

    fn using(names: &[&str]) -> Copies {
        let mut copies = Copies::default();
        copies.set_used(names.iter().map(|name| subject(name)).collect(), BTreeSet::new());
        copies
    }

    fn put(copies: &mut Copies, name: &str, content: &str) -> bool {
        copies.put(&subject(name), value(content), Timestamp::UNIX_EPOCH).is_some()
    }

    #[test]
    fn only_changes_of_what_is_used_are_written() {
        let mut copies = using(&["a"]);
        assert!(
            put(&mut copies, "a", "one") && !put(&mut copies, "a", "one") && put(&mut copies, "a", "two")
        );
        assert!(!put(&mut copies, "b", "one"));
        assert_eq!(copies.serve(&subject("a")).unwrap().value, value("two"));
        assert_eq!(copies.serve(&subject("b")), None);
        assert_eq!(copies.counts(), [1, 1, 0]);
        copies.set_used(BTreeSet::new(), BTreeSet::new());
        assert_eq!(copies.remove_unused(), [(Table::OfflineObjects, "secret/ns/a".to_owned())]);
        assert_eq!((copies.counts(), copies.bytes), ([0; 3], 0));
    }

    #[test]
    fn the_word_of_the_api_server_ends_what_stands_in_for_it() {
        let mut copies = using(&["a", "b"]);
        for name in ["a", "b"] {
            put(&mut copies, name, "one");
            copies.serve(&subject(name));
        }
        put(&mut copies, "a", "one");
        copies.remove(&subject("b"));
        assert_eq!((copies.counts(), copies.bytes), ([1, 0, 0], 4));
    }

    #[test]
    fn copies_have_a_size_that_the_store_can_have() {
        let mut copies = using(&["a", "b"]);
        assert!(put(&mut copies, "a", &"x".repeat(MOST_BYTES - 10)));
        assert!(!put(&mut copies, "b", &"x".repeat(10)));
        assert!(
            copies.problems()[0].starts_with("1 ConfigMaps, Secrets or trust bundles are not stored"),
            "{:?}",
            copies.problems()
        );
        // A smaller version of the other makes room.
        assert!(put(&mut copies, "a", "small") && put(&mut copies, "b", &"x".repeat(10)));
        assert_eq!(copies.problems(), [""; 0]);
    }

    #[test]
    fn unreadable_rows_stay_while_they_are_used_and_until_they_are_replaced() {
        let mut copies = using(&["a", "b"]);
        for name in ["a", "b", "c"] {
            copies.add_unreadable(Table::OfflineObjects, format!("secret/ns/{name}"), "lost key".to_owned());
        }
        assert_eq!(copies.remove_unused(), [(Table::OfflineObjects, "secret/ns/c".to_owned())]);
        assert!(copies.problems()[0].contains("2 stored copies"), "{:?}", copies.problems());
        put(&mut copies, "a", "one");
        copies.remove(&subject("b"));
        assert_eq!(copies.counts(), [1, 0, 0]);
    }
}
