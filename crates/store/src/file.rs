//! The redb database: opened with all checksums verified, read once as a whole, written one transaction at a time. Blocks its
//! thread.
//!
//! redb reports damage as an error if everything is verified on opening; the fuzz target `store_file` searches for files on
//! which it does not. A panic is nevertheless caught here and counts as damage: the rows in memory are intact, and a store
//! that stops the daemon would be worse than none.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError};

use super::contents::{Changes, Key, Value};
use super::error::FileError;
use super::table::Table;

/// Size of redb's page cache in bytes. Small, because rows are read only when the file is opened.
const CACHE: usize = 128 * 1024;

type Definition = TableDefinition<'static, &'static str, &'static [u8]>;

const fn definition(table: Table) -> Definition {
    TableDefinition::new(table.name())
}

/// An open file.
pub(super) struct StoreFile {
    /// `None` only during the drop.
    database: Option<Database>,
}

impl StoreFile {
    /// Opens the database in `backend`, or creates one if it is empty.
    pub(super) fn open(backend: impl StorageBackend) -> Result<Self, FileError> {
        guarded(|| {
            let mut builder = Builder::new();
            builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
            Ok(Self { database: Some(builder.create_with_backend(backend)?) })
        })
    }

    /// Opens a database of these bytes read-only.
    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let memory = InMemoryBackend::new();
        let filled = memory.set_len(bytes.len() as u64).and_then(|()| memory.write(0, bytes));
        filled.map_err(FileError::io("copy"))?;
        Self::open(memory)
    }

    fn database(&self) -> Result<&Database, FileError> {
        self.database.as_ref().ok_or_else(|| FileError::Damaged("it is closed".to_owned()))
    }

    /// Reads all rows. Tables unknown to this version are left alone.
    pub(super) fn read(&self) -> Result<BTreeMap<Key, Value>, FileError> {
        guarded(|| {
            let reading = self.database()?.begin_read()?;
            let mut rows = BTreeMap::new();
            for table in Table::ALL {
                let stored = match reading.open_table(definition(table)) {
                    Ok(stored) => stored,
                    Err(TableError::TableDoesNotExist(_)) => continue,
                    Err(error) => return Err(error.into()),
                };
                for row in stored.iter()? {
                    let (key, value) = row?;
                    rows.insert((table, key.value().to_owned()), value.value().into());
                }
            }
            Ok(rows)
        })
    }

    /// Writes the rows that differ in one synced transaction, if any. Returns whether anything was written.
    pub(super) fn write(&self, changes: &Changes) -> Result<bool, FileError> {
        guarded(|| {
            let writing = self.database()?.begin_write()?;
            let mut changed = false;
            for table in Table::ALL {
                let mut of_table = changes.range((table, String::new())..).peekable();
                let is_of_table = |((of, _), _): &(&Key, &Option<Value>)| *of == table;
                if !of_table.peek().is_some_and(is_of_table) {
                    continue;
                }
                let mut stored = writing.open_table(definition(table))?;
                for ((_, key), value) in of_table.take_while(is_of_table) {
                    let is_same = {
                        let known = stored.get(key.as_str())?;
                        known.as_ref().map(|known| known.value()) == value.as_deref()
                    };
                    if is_same {
                        continue;
                    }
                    changed = true;
                    match value {
                        Some(value) => drop(stored.insert(key.as_str(), &**value)?),
                        None => drop(stored.remove(key.as_str())?),
                    }
                }
            }
            match changed {
                true => writing.commit()?,
                false => writing.abort()?,
            }
            Ok(changed)
        })
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        // Closing writes, so it can fail, and may panic on a damaged file. All rows are still in memory.
        let database = self.database.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

/// Runs `work` and turns a panic into damage. The database is owned by the caller so that it is not dropped while
/// panicking: a second panic would abort the process.
fn guarded<T>(work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason");
        Err(FileError::Damaged(format!("reading or writing it panicked: {text}")))
    })
}
