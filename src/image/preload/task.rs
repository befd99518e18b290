//! Keeps the runtime's images true to the directory: imports each archive once it lies still, tells what is wrong with one,
//! and looks from time to time whether the images are still there. Thin: the judgement is in [`Archives`] and the plan.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::StoreError;
use super::directory::{Archives, ListedArchive, Outcome, PreloadProblem, Tell, list};
use super::file::{ImportError, import_file};
use super::import::{ImageStore, is_present};
use crate::sys::{Changes, Watch};
use crate::types::error_chain;

/// How often everything is looked at, whatever inotify tells. It costs a few calls per image.
const POLL: Duration = Duration::from_secs(60);
/// Pause after a change: a file that is being copied changes all the time.
const SETTLE: Duration = Duration::from_millis(200);
/// Pause before the runtime is asked again to take an archive.
const RETRY: Duration = Duration::from_secs(10);

/// Where archives are, and for whom their images should be.
#[derive(Clone, Debug)]
pub struct PreloadConfig {
    /// The directory. It need not be there yet.
    pub directory: PathBuf,
    /// The host's architecture as OCI images name it.
    pub architecture: &'static str,
}

/// Imports what is in the directory, and what comes, until `cancel`. Of two archives with the same image name, the one
/// imported last has it; at the start that is the last by file name.
/// `told` has what is wrong.
pub async fn run(
    config: PreloadConfig,
    store: Arc<dyn ImageStore>,
    told: watch::Sender<Vec<PreloadProblem>>,
    cancel: CancellationToken,
) {
    let work = Preload {
        directory: std::path::absolute(&config.directory).unwrap_or_else(|_| config.directory.clone()),
        architecture: config.architecture,
        store,
        cancel: cancel.clone(),
        archives: Archives::default(),
        listing_problem: None,
        told: told.clone(),
    };
    tokio::select! {
        biased;
        // Cancel-safe: what is half written is under a lease, and never becomes an image.
        () = cancel.cancelled() => {}
        unsupported = work.keep_true() => {
            let reason = error_chain(&unsupported);
            let message = format!("is not read: {reason}");
            told.send_replace(vec![PreloadProblem { path: config.directory.clone(), message, since: Timestamp::now() }]);
            tracing::warn!(directory = %config.directory.display(), reason,
                "images are not preloaded: that needs containerd; imagePreloadDir changes nothing here");
            cancel.cancelled().await;
        }
    }
}

/// Why the archives could not be listed.
#[derive(Debug, thiserror::Error)]
enum ListingError {
    #[error("{0}")]
    Read(io::Error),
    #[error("{0}")]
    Thread(JoinError),
}

struct Preload {
    directory: PathBuf,
    architecture: &'static str,
    store: Arc<dyn ImageStore>,
    cancel: CancellationToken,
    archives: Archives,
    /// Why the directory could not be listed, as told, and since when.
    listing_problem: Option<(String, Timestamp)>,
    told: watch::Sender<Vec<PreloadProblem>>,
}

impl Preload {
    /// Ends only if the runtime has no such services.
    async fn keep_true(mut self) -> StoreError {
        let changed = Arc::new(Changes::default());
        let mut watch = Some(Watch::new(&self.directory, "image archives", Arc::clone(&changed)));
        let mut poll = Instant::now();
        loop {
            let ready = watch
                .take()
                .unwrap_or_else(|| Watch::new(&self.directory, "image archives", Arc::clone(&changed)));
            let directory = self.directory.clone();
            let listing = tokio::task::spawn_blocking(move || look(ready, &directory)).await;
            let listed = match listing {
                Ok((back, listed)) => {
                    watch = Some(back);
                    listed.map_err(ListingError::Read)
                }
                Err(error) => Err(ListingError::Thread(error)),
            };
            let heeded = self.heed(listed);
            let next = match heeded {
                Some(listed) => match self.round(&listed, &mut poll).await {
                    Ok(next) => next,
                    Err(unsupported) => return unsupported,
                },
                None => {
                    poll = Instant::now() + POLL;
                    None
                }
            };
            self.tell();
            let wake = next.map_or(poll, |next| next.min(poll));
            tokio::select! {
                () = changed.next() => sleep(SETTLE).await, // cancel-safe: a change not taken stays
                () = sleep_until(wake) => {} // cancel-safe: the next round sleeps anew
            }
        }
    }

    /// The listing, if there is one. Tells once why there is none.
    fn heed(
        &mut self,
        listed: Result<BTreeMap<PathBuf, ListedArchive>, ListingError>,
    ) -> Option<BTreeMap<PathBuf, ListedArchive>> {
        match listed {
            Ok(listed) => {
                self.listing_problem = None;
                Some(listed)
            }
            Err(error) => {
                let error = error.to_string();
                if self.listing_problem.as_ref().is_none_or(|(told, _)| *told != error) {
                    let directory = self.directory.display();
                    tracing::warn!(%directory, error, "cannot list the image archives");
                    self.listing_problem = Some((error, Timestamp::now()));
                }
                None
            }
        }
    }

    /// Shows what is wrong, if that is news.
    fn tell(&self) {
        let listing = self.listing_problem.iter().map(|(error, since)| PreloadProblem {
            path: self.directory.clone(),
            message: format!("cannot be listed: {error}"),
            since: *since,
        });
        let problems: Vec<PreloadProblem> = listing.chain(self.archives.problems()).collect();
        self.told.send_if_modified(|told| {
            let is_news = *told != problems;
            *told = problems;
            is_news
        });
    }

    /// Imports what is due. Answers when something will be, if nothing happens.
    async fn round(
        &mut self,
        listed: &BTreeMap<PathBuf, ListedArchive>,
        poll: &mut Instant,
    ) -> Result<Option<Instant>, StoreError> {
        if *poll <= Instant::now() {
            self.find_lost_images().await?;
            *poll = Instant::now() + POLL;
        }
        let due = self.archives.take(listed, Instant::now());
        let mut next = due.next;
        for path in due.now {
            let imported = import_file(&path, self.architecture, &*self.store, &self.cancel).await;
            let outcome = match imported {
                Ok(records) => Outcome::Imported(records),
                Err(ImportError::Store(error @ StoreError::Unsupported(_))) => return Err(error),
                Err(error @ (ImportError::Archive(_) | ImportError::Plan(_))) => {
                    Outcome::Broken(error_chain(&error))
                }
                Err(error @ (ImportError::Store(_) | ImportError::Reader(_))) => {
                    let again = Instant::now() + RETRY;
                    next = Some(next.map_or(again, |next| next.min(again)));
                    Outcome::Failed(error_chain(&error), again)
                }
            };
            self.note(&path, outcome);
            self.tell();
        }
        Ok(next)
    }

    fn note(&mut self, path: &Path, outcome: Outcome) {
        let file = path.display().to_string();
        let images = match &outcome {
            Outcome::Imported(records) => {
                let names = records.keys().filter(|name| !name.starts_with("sha256:") && !name.contains('@'));
                names.cloned().collect::<Vec<_>>().join(", ")
            }
            Outcome::Broken(_) | Outcome::Failed(..) => String::new(),
        };
        match self.archives.note(path, outcome, Timestamp::now()) {
            Some(Tell::Imported) => tracing::info!(file, images, "the images of an archive are there"),
            Some(Tell::Problem(problem)) => tracing::warn!(file, problem, "image archive cannot be used"),
            None => {}
        }
    }

    /// Lets archives be imported again whose images somebody removed, or pointed elsewhere.
    async fn find_lost_images(&mut self) -> Result<(), StoreError> {
        let mut lost = Vec::new();
        for (path, records) in self.archives.imported() {
            match is_present(&*self.store, records).await {
                Ok(true) => {}
                Ok(false) => lost.push(path.clone()),
                Err(error @ StoreError::Unsupported(_)) => return Err(error),
                // The runtime is away; the next poll asks again.
                Err(StoreError::Failed { .. } | StoreError::TimedOut { .. }) => return Ok(()),
            }
        }
        lost.iter().for_each(|path| self.archives.again(path));
        Ok(())
    }
}

fn look(mut watch: Watch, directory: &Path) -> (Watch, io::Result<BTreeMap<PathBuf, ListedArchive>>) {
    // Watched before it is read, so that no change falls between the two.
    watch.renew();
    (watch, list(directory, Timestamp::now()))
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
