//! The handle to the rows in memory. Every operation is short, and only [`Store::written`] waits for the disk.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::json;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use super::contents::{Contents, Value};
use super::metrics::WriteMetrics;
use super::table::Table;

/// The last attempt to write the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteAttempt {
    /// The version of the rows in the last write attempt.
    pub(super) version: u64,
    /// Whether it succeeded.
    pub(super) is_written: bool,
}

/// Maximum wait for the disk.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// The rows. Cheap to clone; clones share one store. The default is empty and has no file.
#[derive(Clone, Default)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    contents: Mutex<Contents>,
    changed: Notify,
    last_attempt: watch::Sender<Option<WriteAttempt>>,
    trouble: watch::Sender<Option<String>>,
    writes: WriteMetrics,
}

impl Store {
    pub(super) fn contents(&self) -> MutexGuard<'_, Contents> {
        // Every statement under the lock leaves the rows consistent.
        self.shared.contents.lock()
    }

    pub(super) fn write_metrics(&self) -> &WriteMetrics {
        &self.shared.writes
    }

    /// The row of this key; `None` if it is missing or cannot be decoded.
    pub fn get<T: DeserializeOwned>(&self, table: Table, key: &str) -> Option<T> {
        let value = self.contents().get(table, key)?.clone();
        decode(table, key, &value)
    }

    /// All rows of a table by key, except those that cannot be decoded.
    pub fn all<T: DeserializeOwned>(&self, table: Table) -> Vec<(String, T)> {
        let rows: Vec<_> =
            self.contents().of_table(table).map(|(key, value)| (key.to_owned(), value.clone())).collect();
        rows.into_iter()
            .filter_map(|(key, value)| decode(table, &key, &value).map(|row| (key, row)))
            .collect()
    }

    /// The keys of a table's rows.
    pub fn keys(&self, table: Table) -> Vec<String> {
        self.contents().of_table(table).map(|(key, _)| key.to_owned()).collect()
    }

    /// Inserts or replaces a row. An equal row changes nothing.
    pub fn put<T: Serialize>(&self, table: Table, key: &str, row: &T) {
        let value = match serde_json::to_vec(row) {
            Ok(value) => value,
            // For instance a path that is not UTF-8.
            Err(error) => {
                tracing::warn!(table = table.name(), key, %error, "cannot encode a row of the store; it is lost when hostlet stops");
                return;
            }
        };
        self.put_bytes(table, key, value);
    }

    /// Inserts or replaces a row by these bytes.
    pub(super) fn put_bytes(&self, table: Table, key: &str, row: Vec<u8>) {
        if self.contents().put(table, key, row) {
            self.shared.changed.notify_one();
        }
    }

    /// All rows of a table by key, as bytes.
    pub(super) fn bytes(&self, table: Table) -> Vec<(String, Value)> {
        self.contents().of_table(table).map(|(key, value)| (key.to_owned(), value.clone())).collect()
    }

    /// Removes a row, if there is one.
    pub fn remove(&self, table: Table, key: &str) {
        if self.contents().remove(table, key) {
            self.shared.changed.notify_one();
        }
    }

    /// Removes the rows of a table whose key does not match.
    pub fn retain(&self, table: Table, keep: impl Fn(&str) -> bool) {
        if self.contents().retain(table, keep) {
            self.shared.changed.notify_one();
        }
    }

    /// Waits until the rows put before are on the disk, for state that must survive if the daemon is killed right after. Does
    /// not wait without a file or if the file cannot be written, and never longer than five seconds. Returns whether they are.
    pub async fn written(&self) -> bool {
        let version = {
            let mut contents = self.contents();
            contents.mark_awaited();
            contents.version()
        };
        self.shared.changed.notify_one();
        let mut attempts = self.shared.last_attempt.subscribe();
        let is_over =
            |last: &Option<WriteAttempt>| last.is_none_or(|t| t.version >= version || !t.is_written);
        match tokio::time::timeout(DISK_PATIENCE, attempts.wait_for(is_over)).await {
            Ok(Ok(last)) => last.is_some_and(|last| last.is_written),
            Ok(Err(_)) => false,
            Err(_) => {
                tracing::warn!("writing the store's file takes more than five seconds; continuing");
                false
            }
        }
    }

    /// Records the last attempt to write the file. A store without one has no file.
    pub(super) fn set_last_attempt(&self, attempt: WriteAttempt) {
        self.shared.last_attempt.send_replace(Some(attempt));
    }

    /// The problems of the file as sentences; `None` if there are none.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.shared.trouble.subscribe()
    }

    /// Returns whether the problems changed.
    pub(super) fn set_trouble(&self, trouble: Option<String>) -> bool {
        self.shared.trouble.send_if_modified(|known| {
            let is_news = *known != trouble;
            *known = trouble;
            is_news
        })
    }

    /// Waits for a change. Cancel-safe: an unseen change is kept for the next call.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// A copy with the current rows, which count as written: what a restarted daemon finds.
    #[cfg(any(test, feature = "fakes"))]
    pub fn copy(&self) -> Self {
        let copy = Self::default();
        let mut contents = self.contents();
        contents.take_changes();
        *copy.contents() = contents.clone();
        drop(contents);
        copy
    }
}

fn decode<T: DeserializeOwned>(table: Table, key: &str, value: &[u8]) -> Option<T> {
    let row = json::from_slice(value);
    let log = |error: &serde_json::Error| {
        tracing::warn!(table = table.name(), key, %error, "cannot decode a row of the store; ignoring it");
    };
    row.inspect_err(log).ok()
}
