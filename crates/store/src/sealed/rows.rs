//! The handle to sealed rows. An equal content is sealed differently each time, so its callers put only what changed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::rows::Store;
use super::super::table::Table;
use super::cipher::CipherError;
use super::host_key::{HostKeys, KeyError, KeyPlace, remove_file};

/// Sealed rows of a store. Cheap to clone; clones share the key.
#[derive(Clone)]
pub struct SealedRows {
    store: Store,
    keys: Arc<HostKeys>,
    key_file: PathBuf,
}

/// A row that was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenedRow<T> {
    /// The key of the row in its table, which is not sealed.
    pub key: String,
    /// What was sealed.
    pub content: T,
    /// Whether it is sealed with a key that was replaced: it is to be put again.
    pub is_outdated: bool,
}

/// A row that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct UnreadableRow {
    /// The key of the row in its table.
    pub key: String,
    /// Why, without anything of its content.
    pub reason: String,
}

/// Why a row cannot be sealed or opened. Has no source: that of a decoder could quote the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum RowError {
    /// The cipher rejects it.
    #[error(transparent)]
    Cipher(#[from] CipherError),
    /// The content cannot be encoded.
    #[error("its content cannot be encoded")]
    Encode,
    /// The content is no such row.
    #[error("its content is that of another version")]
    Decode,
}

impl SealedRows {
    /// The sealed rows of `store`, with the key at `place`, which is made if it is missing. Blocking.
    pub fn open(store: Store, place: &KeyPlace) -> Result<Self, KeyError> {
        let keys = Arc::new(HostKeys::open(place)?);
        Ok(Self { store, keys, key_file: place.file.clone() })
    }

    /// Removes all rows of these tables, and the key's file. Blocking.
    pub fn discard(store: &Store, tables: &[Table], place: &KeyPlace) -> io::Result<()> {
        for table in tables {
            store.retain(*table, |_| false);
        }
        remove_file(&place.file)
    }

    /// Whether the key's file was replaced by a credential and still exists.
    pub fn has_former_key(&self) -> bool {
        self.keys.former.is_some()
    }

    /// Removes the key's file, once all rows that it has sealed were put again and are on the disk. Returns whether they are; if not,
    /// it stays for the next start. Blocking, except for the wait.
    pub async fn remove_former_key(&self) -> io::Result<bool> {
        if !self.store.written().await {
            return Ok(false);
        }
        remove_file(&self.key_file).map(|()| true)
    }

    /// All rows of a table: those that can be opened, and those that cannot. The latter stay in the table, since their key may
    /// return, until they are put again or removed.
    pub fn all<T: DeserializeOwned>(&self, table: Table) -> (Vec<OpenedRow<T>>, Vec<UnreadableRow>) {
        let (mut opened, mut unreadable) = (Vec::new(), Vec::new());
        for (key, sealed) in self.store.bytes(table) {
            match self.opened(table, &key, &sealed) {
                Ok(row) => opened.push(row),
                Err(error) => unreadable.push(UnreadableRow { key, reason: error.to_string() }),
            }
        }
        (opened, unreadable)
    }

    fn opened<T: DeserializeOwned>(
        &self,
        table: Table,
        key: &str,
        sealed: &[u8],
    ) -> Result<OpenedRow<T>, RowError> {
        let bound_to = bound_to(table, key);
        let (content, is_outdated) = match self.keys.current.open(sealed, &bound_to) {
            Ok(content) => (content, false),
            Err(error) => {
                let former = self.keys.former.as_ref().ok_or(error)?;
                (former.open(sealed, &bound_to)?, true)
            }
        };
        let content = json::from_slice(&content).map_err(|_| RowError::Decode)?;
        Ok(OpenedRow { key: key.to_owned(), content, is_outdated })
    }

    /// Seals and puts a row. One that cannot be encoded or sealed is logged, without its content, and not put.
    pub fn put<T: Serialize>(&self, table: Table, key: &str, row: &T) {
        match self.sealed(table, key, row) {
            Ok(sealed) => self.store.put_bytes(table, key, sealed),
            Err(error) => {
                tracing::warn!(table = table.name(), key, %error, "cannot seal a row of the store; it is lost when hostlet stops");
            }
        }
    }

    fn sealed<T: Serialize>(&self, table: Table, key: &str, row: &T) -> Result<Vec<u8>, RowError> {
        let content = serde_json::to_vec(row).map_err(|_| RowError::Encode)?;
        Ok(self.keys.current.seal(content, &bound_to(table, key))?)
    }

    /// Removes a row, if there is one.
    pub fn remove(&self, table: Table, key: &str) {
        self.store.remove(table, key);
    }
}

/// What a row is bound to. A table's name has no NUL.
fn bound_to(table: Table, key: &str) -> Vec<u8> {
    [table.name().as_bytes(), b"\0", key.as_bytes()].concat()
}
