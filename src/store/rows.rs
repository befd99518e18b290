//! The handle on the rows in memory. Every operation is short, and only one, which says so, waits for the disk.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use super::contents::Contents;
use super::metrics::WriteMetrics;
use super::table::Table;
use crate::types::json;

/// How far the file has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// The version of the rows that was last tried to be written.
    pub(super) version: u64,
    /// Whether that succeeded.
    pub(super) is_written: bool,
}

/// The longest that anybody waits for the disk.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// The rows. Cheap to clone; all clones are one store. The default one is empty and has no file: what is put into it is gone
/// with it.
#[derive(Clone, Default)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    contents: Mutex<Contents>,
    changed: Notify,
    tried: watch::Sender<Option<Tried>>,
    trouble: watch::Sender<Option<String>>,
    writes: WriteMetrics,
}

impl Store {
    pub(super) fn contents(&self) -> MutexGuard<'_, Contents> {
        // Every statement under the lock leaves the rows valid.
        self.shared.contents.lock()
    }

    pub(super) fn write_metrics(&self) -> &WriteMetrics {
        &self.shared.writes
    }

    /// The row of this key. A row that cannot be read any more counts as none.
    pub fn get<T: DeserializeOwned>(&self, table: Table, key: &str) -> Option<T> {
        let value = self.contents().get(table, key)?.clone();
        decode(table, key, &value)
    }

    /// All rows of a table, by key, but for those that cannot be read any more.
    pub fn all<T: DeserializeOwned>(&self, table: Table) -> Vec<(String, T)> {
        let rows: Vec<_> =
            self.contents().of_table(table).map(|(key, value)| (key.to_owned(), value.clone())).collect();
        rows.into_iter()
            .filter_map(|(key, value)| decode(table, &key, &value).map(|row| (key, row)))
            .collect()
    }

    /// Puts a row in place of the one there is, if any. An equal one changes nothing.
    pub fn put<T: Serialize>(&self, table: Table, key: &str, row: &T) {
        let value = match serde_json::to_vec(row) {
            Ok(value) => value,
            // Such as a path that is not UTF-8 text.
            Err(error) => {
                tracing::warn!(table = table.name(), key, %error, "cannot store this; it is forgotten when hostlet ends");
                return;
            }
        };
        if self.contents().put(table, key, value) {
            self.shared.changed.notify_one();
        }
    }

    /// Removes the rows of a table whose key is not to be kept.
    pub fn retain(&self, table: Table, keep: impl Fn(&str) -> bool) {
        if self.contents().retain(table, keep) {
            self.shared.changed.notify_one();
        }
    }

    /// Waits until what was put before is on the disk: for what must be known even if the daemon is killed in the next moment.
    /// Does not wait for a file that there is none of or that cannot be written, nor longer than five seconds.
    pub async fn written(&self) {
        let version = {
            let mut contents = self.contents();
            contents.is_awaited();
            contents.version()
        };
        self.shared.changed.notify_one();
        let mut tried = self.shared.tried.subscribe();
        let is_over = |tried: &Option<Tried>| tried.is_none_or(|t| t.version >= version || !t.is_written);
        if tokio::time::timeout(DISK_PATIENCE, tried.wait_for(is_over)).await.is_err() {
            tracing::warn!("the store's file takes more than five seconds to be written; going on");
        }
    }

    /// How far the file has come; a store of which this was never said has none.
    pub(super) fn set_tried(&self, tried: Tried) {
        self.shared.tried.send_replace(Some(tried));
    }

    /// What is wrong with the file, in a sentence or several; none if nothing is.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.shared.trouble.subscribe()
    }

    /// Answers whether this is news.
    pub(super) fn set_trouble(&self, trouble: Option<String>) -> bool {
        self.shared.trouble.send_if_modified(|known| {
            let is_news = *known != trouble;
            *known = trouble;
            is_news
        })
    }

    /// Waits for a change. Cancel-safe: a change that nobody waited for is kept for the next who does.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// A store with the rows as they are now: what a daemon finds that starts after this one was killed, if just now
    /// everything was written.
    #[cfg(any(test, feature = "fakes"))]
    pub fn copy(&self) -> Self {
        let copy = Self::default();
        *copy.contents() = self.contents().clone();
        copy
    }
}

fn decode<T: DeserializeOwned>(table: Table, key: &str, value: &[u8]) -> Option<T> {
    let row = json::from_slice(value);
    let told = |error: &serde_json::Error| {
        tracing::warn!(table = table.name(), key, %error, "cannot read a row of the store; going on without");
    };
    row.inspect_err(told).ok()
}
