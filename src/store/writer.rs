//! The task that keeps the file true to the rows, and what it does when it cannot: nothing that the daemon would notice.
//!
//! - A file that is damaged, or that others could have written, is renamed, told of, and made anew from the rows in memory.
//! - A file that cannot be read or written now (a full disk, a file system gone read-only) is told of, and tried again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::aside::{set_aside, tidy};
use super::contents::{Contents, Key, Value};
use super::error::FileError;
use super::file::StoreFile;
use super::pace::due;
use super::place::{self, Identity};
use super::rows::{Store, Tried};
use crate::types::{Backoff, BackoffPolicy};

/// How long the daemon before this one may take to let go of the file: it has five seconds for its end.
const HANDOVER: Duration = Duration::from_secs(6);
/// Pause between two looks whether it has.
const HANDOVER_LOOK: Duration = Duration::from_millis(50);

/// Pause between two looks after what was set aside.
const TIDYING: Duration = Duration::from_secs(3600);

/// Pauses between tries of what fails. A try reads the whole file.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(5),
    max: Duration::from_secs(300),
    reset_after: Duration::from_secs(600),
};

/// The file while it is open.
struct Open {
    file: StoreFile,
    identity: Identity,
}

/// Owns the file. To be run by the app.
pub struct StoreWriter {
    store: Store,
    path: PathBuf,
    /// None while it cannot be used.
    file: Option<Open>,
    /// The last file that was set aside, told for as long as the daemon lives and the file is kept.
    set_aside: Option<(PathBuf, String)>,
}

impl Store {
    /// Opens the file and reads it. Never fails: what is wrong is told, and the store begins with what could be read.
    pub async fn open(path: PathBuf) -> (Self, StoreWriter) {
        let deadline = Instant::now() + HANDOVER;
        loop {
            let mut keeper = StoreWriter::of(Self::default(), path.clone());
            let read = tokio::task::spawn_blocking(move || {
                let error = keeper.read();
                keeper.tidy_asides();
                (error, keeper)
            })
            .await;
            let (error, keeper) = read.unwrap_or_else(|error| {
                (Some(FileError::Damaged(error.to_string())), StoreWriter::of(Self::default(), path.clone()))
            });
            match error {
                Some(FileError::InUse) if Instant::now() < deadline => sleep(HANDOVER_LOOK).await,
                error => {
                    keeper.tell(error.as_ref());
                    return (keeper.store.clone(), keeper);
                }
            }
        }
    }
}

impl StoreWriter {
    fn of(store: Store, path: PathBuf) -> Self {
        Self { store, path, file: None, set_aside: None }
    }

    /// Opens the file and takes its rows. Blocking. Answers why it cannot be used, if it cannot.
    fn read(&mut self) -> Option<FileError> {
        let (rows, error) = match self.open() {
            Ok((open, rows)) => {
                self.file = Some(open);
                (rows, None)
            }
            // Its rows are worth having even where nothing can be written.
            Err(error @ FileError::Io { .. }) => {
                let rows = place::open_read_only(&self.path).and_then(|file| file.read());
                (rows.unwrap_or_default(), Some(error))
            }
            Err(error) => return Some(error),
        };
        *self.store.contents() = Contents::of_file(rows);
        self.store.set_tried(Tried { version: 0, is_written: error.is_none() });
        error
    }

    /// Looks after what was set aside. Blocking.
    fn tidy_asides(&mut self) {
        tidy(&self.path, Timestamp::now());
        let is_gone = self.set_aside.take_if(|(aside, _)| aside.symlink_metadata().is_err()).is_some();
        if is_gone && self.file.is_some() {
            self.tell(None);
        }
    }

    /// Opens the file; one that is damaged is set aside first.
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
            "{} was not usable ({damage}) and is now {}; a new one was begun",
            self.path.display(),
            aside.display()
        );
        tracing::error!(
            file = %self.path.display(),
            aside = %aside.display(),
            damage,
            "the store was not usable and was set aside; a new one is made of what is known"
        );
        self.set_aside = Some((aside, sentence));
        opened(&self.path)
    }

    /// Brings the file up to date. Blocking. Answers whether that succeeded.
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
        // Damage that shows only now: from memory into a new file, at once.
        let written = match written {
            Err(FileError::Damaged(damage)) => {
                tracing::warn!(damage, "the store failed while it was written");
                self.write_all()
            }
            other => other,
        };
        match written {
            Ok(open) => {
                self.file = Some(open);
                self.tell(None);
                self.store.set_tried(Tried { version, is_written: true });
                true
            }
            Err(error) => {
                self.store.contents().put_back(changes);
                self.tell(Some(&error));
                self.store.set_tried(Tried { version, is_written: false });
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

    fn tell(&self, error: Option<&FileError>) {
        let sentence = error.map(|error| {
            format!(
                "{} cannot be used: {error}; pods go on, but back-offs and pods of broken manifests are forgotten when \
                 hostlet ends",
                self.path.display()
            )
        });
        let sentences: Vec<String> =
            self.set_aside.iter().map(|(_, told)| told.clone()).chain(sentence).collect();
        let trouble = (!sentences.is_empty()).then(|| sentences.join(". "));
        if !self.store.set_trouble(trouble) {
            return;
        }
        match error {
            Some(error) => {
                tracing::error!(file = %self.path.display(), %error, "the store cannot be used; trying again")
            }
            None => tracing::info!(file = %self.path.display(), "the store is in use"),
        }
    }

    /// Does blocking work where it holds up nobody. Of one that panics nothing is left: the error is another writer, whose
    /// rows are whole, and the file is what it makes of it.
    async fn blocking<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Result<(T, Self), Self> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let done = tokio::task::spawn_blocking(move || (work(&mut self), self)).await;
        done.map_err(|error| {
            tracing::error!(%error, "writing the store ended early");
            Self::of(store, path)
        })
    }

    /// Writes what changes, until cancelled; then what is left to write.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut last = None;
        let mut retry: Option<Backoff<Instant>> = None;
        // Since when something is to be written.
        let mut since = None;
        let mut next_tidying = Instant::now() + TIDYING;
        loop {
            if next_tidying <= Instant::now() {
                next_tidying = Instant::now() + TIDYING;
                ((), self) = self.blocking(Self::tidy_asides).await.unwrap_or_else(|next| ((), next));
            }
            let Some(pace) = self.store.contents().pace() else {
                tokio::select! {
                    // Cancel-safe: waiting for a token takes nothing.
                    () = cancel.cancelled() => break,
                    // Cancel-safe, see there.
                    () = self.store.changed() => continue,
                    // Cancel-safe: a pause takes nothing.
                    () = sleep_until(next_tidying) => continue,
                }
            };
            let since_now = *since.get_or_insert_with(Instant::now);
            let due = due(pace, since_now, last).max(retry.map_or(since_now, |r| r.updated + r.delay));
            tokio::select! {
                // Cancel-safe: as above.
                () = cancel.cancelled() => break,
                // Cancel-safe: a pause takes nothing.
                () = sleep_until(due) => {}
                // Cancel-safe: as above. A change that is more urgent may have come.
                () = self.store.changed() => continue,
            }
            since = None;
            let is_written;
            (is_written, self) = self.blocking(Self::write).await.unwrap_or_else(|next| (false, next));
            let now = Instant::now();
            last = Some(now);
            retry = (!is_written).then(|| Backoff::next(retry, &RETRY, now, now));
        }
        // Whoever waits for the end of the daemon waits for this too, for five seconds at most.
        if self.store.contents().pace().is_some() {
            let _ = tokio::task::spawn_blocking(move || self.write()).await;
        }
    }
}
