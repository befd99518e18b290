//! All rows in memory, and which of them are not in the file yet. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::{Pace, Table};

/// A row's key: its table and its key in the table.
pub(super) type Key = (Table, String);
/// A row's bytes: shared and immutable.
pub(super) type Value = Arc<[u8]>;
/// Rows to write; `None` removes a row.
pub(super) type Changes = BTreeMap<Key, Option<Value>>;

/// All rows. A row that changes twice before a write is written once, with its last value.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    rows: BTreeMap<Key, Value>,
    /// With whether the row is new, which decides how soon it is written.
    unwritten: BTreeMap<Key, bool>,
    /// Number of changes.
    version: u64,
    /// A caller waits for the unwritten rows.
    is_awaited: bool,
}

impl Contents {
    pub(super) fn of_file(rows: BTreeMap<Key, Value>) -> Self {
        Self { rows, ..Self::default() }
    }

    pub(super) fn get(&self, table: Table, key: &str) -> Option<&Value> {
        self.rows.get(&(table, key.to_owned()))
    }

    pub(super) fn of_table(&self, table: Table) -> impl Iterator<Item = (&str, &Value)> {
        let rows = self.rows.range((table, String::new())..);
        rows.take_while(move |((of, _), _)| *of == table).map(|((_, key), value)| (key.as_str(), value))
    }

    /// Puts or removes a row. Returns whether anything changed.
    pub(super) fn put(&mut self, table: Table, key: &str, value: Vec<u8>) -> bool {
        let row_key = (table, key.to_owned());
        if self.rows.get(&row_key).is_some_and(|known| **known == *value) {
            return false;
        }
        let is_new = self.rows.insert(row_key.clone(), value.into()).is_none();
        *self.unwritten.entry(row_key).or_default() |= is_new;
        self.version += 1;
        true
    }

    /// Removes a row. Returns whether there was one.
    pub(super) fn remove(&mut self, table: Table, key: &str) -> bool {
        let row_key = (table, key.to_owned());
        let changed = self.rows.remove(&row_key).is_some();
        if changed {
            self.unwritten.insert(row_key, false);
            self.version += 1;
        }
        changed
    }

    /// Removes the rows of a table whose key does not match. Returns whether anything changed.
    pub(super) fn retain(&mut self, table: Table, keep: impl Fn(&str) -> bool) -> bool {
        let removed: Vec<Key> = self
            .of_table(table)
            .filter(|(key, _)| !keep(key))
            .map(|(key, _)| (table, key.to_owned()))
            .collect();
        for row_key in &removed {
            self.rows.remove(row_key);
        }
        let changed = !removed.is_empty();
        self.unwritten.extend(removed.into_iter().map(|row_key| (row_key, false)));
        self.version += u64::from(changed);
        changed
    }

    /// How soon to write; `None` if the file is up to date.
    pub(super) fn pace(&self) -> Option<Pace> {
        let paces = self.unwritten.iter();
        let pace = paces.map(|((table, _), is_new)| table.pace(*is_new)).min()?;
        Some(if self.is_awaited { Pace::Now } else { pace })
    }

    /// Increases with every change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Records that a caller waits for the unwritten rows.
    pub(super) fn mark_awaited(&mut self) {
        self.is_awaited = true;
    }

    /// Takes the unwritten changes, which count as written from here on unless they are [put back](Self::put_back).
    pub(super) fn take_changes(&mut self) -> Changes {
        self.is_awaited = false;
        let keys = std::mem::take(&mut self.unwritten);
        let value = |row_key: &Key| self.rows.get(row_key).cloned();
        keys.into_keys()
            .map(|row_key| (value(&row_key), row_key))
            .map(|(value, row_key)| (row_key, value))
            .collect()
    }

    /// Returns changes whose write failed.
    pub(super) fn put_back(&mut self, changes: Changes) {
        for row_key in changes.into_keys() {
            self.unwritten.entry(row_key).or_default();
        }
    }

    /// The changes that bring a file with the rows `file` up to date.
    pub(super) fn changes_of(&self, file: &BTreeMap<Key, Value>) -> Changes {
        let removed = file.keys().filter(|row_key| !self.rows.contains_key(*row_key));
        let differ = self.rows.iter().filter(|(row_key, value)| file.get(*row_key) != Some(*value));
        let differ = differ.map(|(row_key, value)| (row_key.clone(), Some(value.clone())));
        removed.map(|row_key| (row_key.clone(), None)).chain(differ).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(file: &mut BTreeMap<Key, Value>, changes: &Changes) {
        for (row_key, value) in changes {
            match value {
                Some(value) => drop(file.insert(row_key.clone(), value.clone())),
                None => drop(file.remove(row_key)),
            }
        }
    }

    #[test]
    fn a_new_copy_is_written_sooner_than_its_changes() {
        let mut contents = Contents::default();
        let mut pace_of = |value: u8| {
            contents.put(Table::OfflineTokens, "a", vec![value]);
            let pace = contents.pace();
            contents.take_changes();
            pace
        };
        assert_eq!([pace_of(1), pace_of(2), pace_of(2)], [Some(Pace::Soon), Some(Pace::Rarely), None]);
    }

    #[derive(Clone, Debug)]
    enum Edit {
        Put(Table, u8, u8),
        Retain(Table, u8),
        /// A write that succeeds or fails.
        Write(bool),
        /// The file was replaced by an older one or removed.
        Replace,
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let table = || prop::sample::select(Table::ALL.to_vec());
        let edit = prop_oneof![
            6 => (table(), 0u8..6, 0u8..3).prop_map(|(table, key, value)| Edit::Put(table, key, value)),
            1 => (table(), 0u8..6).prop_map(|(table, bound)| Edit::Retain(table, bound)),
            3 => any::<bool>().prop_map(Edit::Write),
            1 => Just(Edit::Replace),
        ];
        proptest::collection::vec(edit, 0..60)
    }

    proptest! {
        /// After any history, writing the changes makes the file equal to the rows, and nothing is written that the file
        /// already has.
        #[test]
        fn changes_make_the_file_equal(edits in edits()) {
            let mut contents = Contents::default();
            let mut file = BTreeMap::new();
            for edit in edits {
                match edit {
                    Edit::Put(table, key, value) => {
                        let before = contents.rows.clone();
                        let changed = contents.put(table, &key.to_string(), vec![value]);
                        prop_assert_eq!(changed, before != contents.rows);
                    }
                    Edit::Retain(table, bound) => {
                        let keep = |key: &str| key.parse::<u8>().unwrap() < bound;
                        contents.retain(table, keep);
                        prop_assert!(contents.of_table(table).all(|(key, _)| keep(key)));
                    }
                    Edit::Write(succeeds) => {
                        let changes = contents.take_changes();
                        prop_assert_eq!(contents.pace(), None);
                        match succeeds {
                            true => apply(&mut file, &changes),
                            false => contents.put_back(changes),
                        }
                    }
                    Edit::Replace => {
                        file.clear();
                        let all = contents.changes_of(&file);
                        contents.put_back(all);
                    }
                }
            }
            let mut by_difference = file.clone();
            let difference = contents.changes_of(&file);
            apply(&mut by_difference, &difference);
            prop_assert_eq!(&by_difference, &contents.rows);
            let changes = contents.take_changes();
            prop_assert!(difference.keys().all(|row_key| changes.contains_key(row_key)));
            apply(&mut file, &changes);
            prop_assert_eq!(&file, &contents.rows);
            prop_assert!(contents.changes_of(&file).is_empty());
        }
    }
}
