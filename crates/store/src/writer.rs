//! The task that writes the rows to the file. A failure never affects the daemon:
//!
//! - A file that is damaged, or that others could have written, is set aside, reported, and rewritten from memory.
//! - A file that cannot be read or written now (a full disk, a read-only file system) is reported and retried.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy};
use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::aside::{set_aside, tidy};
use super::contents::{Contents, Key, Value};
use super::error::FileError;
use super::file::StoreFile;
use super::pace::due;
use super::place::{self, Identity};
use super::rows::{Store, WriteAttempt};

/// How long to wait for the previous daemon to close the file; its shutdown takes at most five seconds.
const HANDOVER: Duration = Duration::from_secs(6);
/// Interval of checks for that.
const HANDOVER_POLL: Duration = Duration::from_millis(50);

/// Interval of the clean-up of files set aside.
const TIDYING: Duration = Duration::from_secs(3600);

/// Back-off of failed writes. An attempt reads the whole file.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(5),
    max: Duration::from_secs(300),
    reset_after: Duration::from_secs(600),
};

/// The open file.
struct Open {
    file: StoreFile,
    identity: Identity,
}

/// The task that owns the file; run by the app.
pub struct StoreWriter {
    store: Store,
    path: PathBuf,
    /// `None` while it is unusable.
    file: Option<Open>,
    /// The last file set aside and the sentence that reports it as long as the file is kept.
    set_aside: Option<(PathBuf, String)>,
}

impl Store {
    /// Opens and reads the file. Never fails: problems are reported, and the store starts with the rows that could be read.
    pub async fn open(path: PathBuf) -> (Self, StoreWriter) {
        let deadline = Instant::now() + HANDOVER;
        loop {
            let mut writer = StoreWriter::of(Self::default(), path.clone());
            let read = tokio::task::spawn_blocking(move || {
                let error = writer.read();
                writer.tidy_asides();
                (error, writer)
            })
            .await;
            let (error, writer) = read.unwrap_or_else(|error| {
                (Some(FileError::Damaged(error.to_string())), StoreWriter::of(Self::default(), path.clone()))
            });
            match error {
                Some(FileError::InUse) if Instant::now() < deadline => sleep(HANDOVER_POLL).await,
                error => {
                    writer.report(error.as_ref());
                    return (writer.store.clone(), writer);
                }
            }
        }
    }
}

impl Store {
    /// The rows of the file at `path`, which is not changed, also while a daemon has it open. A missing file has none. Blocking.
    pub fn read(path: &Path) -> Result<Self, UnreadableStore> {
        let unreadable = |source| UnreadableStore { path: path.to_owned(), source };
        if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(Self::default());
        }
        let rows = place::open_read_only(path).and_then(|file| file.read()).map_err(unreadable)?;
        let store = Self::default();
        *store.contents() = Contents::of_file(rows);
        Ok(store)
    }
}

/// A file whose rows cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the store {} cannot be read", path.display())]
pub struct UnreadableStore {
    path: PathBuf,
    source: FileError,
}

impl StoreWriter {
    fn of(store: Store, path: PathBuf) -> Self {
        Self { store, path, file: None, set_aside: None }
    }

    /// Opens the file and loads its rows. Blocking. Returns why the file is unusable, if it is.
    fn read(&mut self) -> Option<FileError> {
        let (rows, error) = match self.open() {
            Ok((open, rows)) => {
                self.file = Some(open);
                (rows, None)
            }
            // The rows are useful even where nothing can be written.
            Err(error @ FileError::Io { .. }) => {
                let rows = place::open_read_only(&self.path).and_then(|file| file.read());
                (rows.unwrap_or_default(), Some(error))
            }
            Err(error) => return Some(error),
        };
        *self.store.contents() = Contents::of_file(rows);
        self.store.set_last_attempt(WriteAttempt { version: 0, is_written: error.is_none() });
        error
    }

    /// Cleans up the files set aside. Blocking.
    fn tidy_asides(&mut self) {
        tidy(&self.path, Timestamp::now());
        let is_removed = self.set_aside.take_if(|(aside, _)| aside.symlink_metadata().is_err()).is_some();
        if is_removed && self.file.is_some() {
            self.report(None);
        }
    }

    /// Opens the file. A damaged one is set aside first.
    fn open(&mut self) -> Result<(Open, BTreeMap<Key, Value>), FileError> {
        let opened = |path: &Path| {
            let (file, identity) = place::open(path)?;
            let rows = file.read()?;
            Ok((Open { file, identity }, rows))
        };
        let damage = match opened(&self.path) {
            Err(FileError::Damaged(damage)) => damage,
            other => return other,
        };
        let aside = set_aside(&self.path, Timestamp::now())?;
        let sentence = format!(
            "{} was unusable ({damage}) and was set aside as {}; a new store was created",
            self.path.display(),
            aside.display()
        );
        tracing::error!(
            file = %self.path.display(),
            aside = %aside.display(),
            damage,
            "the store was unusable and was set aside; a new one is written from memory"
        );
        self.set_aside = Some((aside, sentence));
        opened(&self.path)
    }

    /// Brings the file up to date. Blocking. Returns whether that succeeded.
    pub fn write(&mut self) -> bool {
        let began = Instant::now();
        let is_written = self.write_changes();
        self.store.write_metrics().written(began.elapsed(), is_written);
        is_written
    }

    fn write_changes(&mut self) -> bool {
        let (changes, version) = {
            let mut contents = self.store.contents();
            (contents.take_changes(), contents.version())
        };
        let written = match self.file.take().filter(|open| place::is_at(&self.path, open.identity)) {
            Some(open) => open.file.write(&changes).map(|_| open),
            None => self.write_all(),
        };
        // Damage detected only now: rewritten from memory immediately.
        let written = match written {
            Err(FileError::Damaged(damage)) => {
                tracing::warn!(damage, "the store's file turned out to be damaged during a write");
                self.write_all()
            }
            other => other,
        };
        match written {
            Ok(open) => {
                self.file = Some(open);
                self.report(None);
                self.store.set_last_attempt(WriteAttempt { version, is_written: true });
                true
            }
            Err(error) => {
                self.store.contents().put_back(changes);
                self.report(Some(&error));
                self.store.set_last_attempt(WriteAttempt { version, is_written: false });
                false
            }
        }
    }

    fn write_all(&mut self) -> Result<Open, FileError> {
        let (open, rows) = self.open()?;
        let changes = self.store.contents().changes_of(&rows);
        open.file.write(&changes)?;
        Ok(open)
    }

    fn report(&self, error: Option<&FileError>) {
        let sentence = error.map(|error| {
            format!(
                "{} cannot be used: {error}; pods keep running, but back-offs and pods of broken manifests are forgotten when \
                 hostlet stops",
                self.path.display()
            )
        });
        let sentences: Vec<String> =
            self.set_aside.iter().map(|(_, sentence)| sentence.clone()).chain(sentence).collect();
        let trouble = (!sentences.is_empty()).then(|| sentences.join(". "));
        if !self.store.set_trouble(trouble) {
            return;
        }
        match error {
            Some(error) => {
                tracing::error!(file = %self.path.display(), %error, "the store cannot be used; retrying")
            }
            None => tracing::info!(file = %self.path.display(), "the store is in use"),
        }
    }

    /// Runs blocking work on the blocking pool. If it panics, a new writer with the same rows takes over.
    async fn blocking<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Result<(T, Self), Self> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let done = tokio::task::spawn_blocking(move || (work(&mut self), self)).await;
        done.map_err(|error| {
            tracing::error!(%error, "a write of the store panicked");
            Self::of(store, path)
        })
    }

    /// Writes changes until cancelled, then the remaining ones.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut last = None;
        let mut retry: Option<Backoff<Instant>> = None;
        // Time of the oldest unwritten change.
        let mut since = None;
        let mut next_tidying = Instant::now() + TIDYING;
        loop {
            if next_tidying <= Instant::now() {
                next_tidying = Instant::now() + TIDYING;
                ((), self) = self.blocking(Self::tidy_asides).await.unwrap_or_else(|next| ((), next));
            }
            let Some(pace) = self.store.contents().pace() else {
                tokio::select! {
                    // Cancel-safe: waits for a token.
                    () = cancel.cancelled() => break,
                    // Cancel-safe, see there.
                    () = self.store.changed() => continue,
                    // Cancel-safe: a sleep.
                    () = sleep_until(next_tidying) => continue,
                }
            };
            let since_now = *since.get_or_insert_with(Instant::now);
            let due = due(pace, since_now, last).max(retry.map_or(since_now, |r| r.updated + r.delay));
            tokio::select! {
                // Cancel-safe: as above.
                () = cancel.cancelled() => break,
                // Cancel-safe: a sleep.
                () = sleep_until(due) => {}
                // Cancel-safe: as above. A more urgent change may have arrived.
                () = self.store.changed() => continue,
            }
            since = None;
            let is_written;
            (is_written, self) = self.blocking(Self::write).await.unwrap_or_else(|next| (false, next));
            let now = Instant::now();
            last = Some(now);
            retry = (!is_written).then(|| Backoff::next(retry, &RETRY, now, now));
        }
        // Shutdown waits for this too, for five seconds at most.
        if self.store.contents().pace().is_some() {
            let _ = tokio::task::spawn_blocking(move || self.write()).await;
        }
    }
}
