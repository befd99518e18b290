//! Imports the directory's archives: each one once it stops changing. Publishes problems, and checks periodically that the
//! images are still there. Thin: the decisions are in [`Archives`] and the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_host::{Changes, Watch};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::StoreError;
use super::directory::{Archives, ListedArchive, Outcome, PreloadProblem, Report, list};
use super::file::{ImportError, import_file};
use super::import::{ImageStore, is_present};

/// Interval of the full check, independent of inotify. It costs a few calls per image.
const POLL: Duration = Duration::from_secs(60);
/// Pause after a change: a file that is being copied keeps changing.
const SETTLE: Duration = Duration::from_millis(200);
/// Pause before an import that the runtime failed is retried.
const RETRY: Duration = Duration::from_secs(10);

/// Where the archives are, and the platform of their images.
#[derive(Clone, Debug)]
pub struct PreloadConfig {
    /// The directory. It need not exist yet.
    pub directory: PathBuf,
    /// The host's architecture (OCI name).
    pub architecture: &'static str,
}

/// Where the task publishes what it finds.
#[derive(Clone, Debug, Default)]
pub struct PreloadOutputs {
    /// The archives that cannot be imported.
    pub problems: watch::Sender<Vec<PreloadProblem>>,
    /// The names and IDs of the images that the archives bring; `None` before they were all looked at once.
    pub images: watch::Sender<Option<BTreeSet<String>>>,
}

/// Imports the directory's archives, and new ones as they appear, until `cancel`. If two archives have the same image name,
/// the one imported last wins; at start-up that is the last by file name.
pub async fn run(
    config: PreloadConfig,
    store: Arc<dyn ImageStore>,
    outputs: PreloadOutputs,
    cancel: CancellationToken,
) {
    let work = Preload {
        directory: std::path::absolute(&config.directory).unwrap_or_else(|_| config.directory.clone()),
        architecture: config.architecture,
        store,
        cancel: cancel.clone(),
        archives: Archives::default(),
        listing_problem: None,
        outputs: outputs.clone(),
    };
    tokio::select! {
        biased;
        // Cancel-safe: a partial write is under a lease and never becomes an image.
        () = cancel.cancelled() => {}
        unsupported = work.reconcile() => {
            let reason = error_chain(&unsupported);
            let message = format!("is not read: {reason}");
            // Nothing restores their images.
            outputs.images.send_replace(Some(BTreeSet::new()));
            outputs.problems.send_replace(vec![PreloadProblem { path: config.directory.clone(), message, since: Timestamp::now() }]);
            tracing::warn!(directory = %config.directory.display(), reason,
                "images are not preloaded: that needs containerd; imagePreloadDir has no effect");
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
    /// The reported listing error, and its start.
    listing_problem: Option<(String, Timestamp)>,
    outputs: PreloadOutputs,
}

impl Preload {
    /// Keeps the images of the archives in the runtime. Returns only if the runtime lacks containerd's services.
    async fn reconcile(mut self) -> StoreError {
        let changed = Arc::new(Changes::default());
        let mut watch = Some(Watch::new(&self.directory, "image archives", Arc::clone(&changed)));
        let mut poll = Instant::now();
        loop {
            let ready = watch
                .take()
                .unwrap_or_else(|| Watch::new(&self.directory, "image archives", Arc::clone(&changed)));
            let directory = self.directory.clone();
            let listing = tokio::task::spawn_blocking(move || renew_and_list(ready, &directory)).await;
            let listed = match listing {
                Ok((back, listed)) => {
                    watch = Some(back);
                    listed.map_err(ListingError::Read)
                }
                Err(error) => Err(ListingError::Thread(error)),
            };
            let listing = self.process_listing(listed);
            let next = match listing {
                Some(listed) => match self.round(&listed, &mut poll).await {
                    Ok(next) => {
                        self.publish_images();
                        next
                    }
                    Err(unsupported) => return unsupported,
                },
                None => {
                    poll = Instant::now() + POLL;
                    None
                }
            };
            self.report();
            let wake = next.map_or(poll, |next| next.min(poll));
            tokio::select! {
                () = changed.next() => sleep(SETTLE).await, // cancel-safe: a change not taken stays
                () = sleep_until(wake) => {} // cancel-safe: the next round sleeps again
            }
        }
    }

    /// Returns the listing. A failure is logged once.
    fn process_listing(
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
                if self.listing_problem.as_ref().is_none_or(|(reported, _)| *reported != error) {
                    let directory = self.directory.display();
                    tracing::warn!(%directory, error, "cannot list the image archives");
                    self.listing_problem = Some((error, Timestamp::now()));
                }
                None
            }
        }
    }

    /// Publishes the problems if they changed.
    fn report(&self) {
        let listing = self.listing_problem.iter().map(|(error, since)| PreloadProblem {
            path: self.directory.clone(),
            message: format!("cannot be listed: {error}"),
            since: *since,
        });
        let problems: Vec<PreloadProblem> = listing.chain(self.archives.problems()).collect();
        self.outputs.problems.send_if_modified(|reported| {
            let is_changed = *reported != problems;
            *reported = problems;
            is_changed
        });
    }

    /// Publishes what the archives bring, if it changed.
    fn publish_images(&self) {
        let names = Some(self.archives.names());
        self.outputs.images.send_if_modified(|published| {
            let is_changed = *published != names;
            *published = names;
            is_changed
        });
    }

    /// Imports what is due. Returns when the next archive becomes due without a change.
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
            self.record(&path, outcome);
            self.report();
        }
        Ok(next)
    }

    fn record(&mut self, path: &Path, outcome: Outcome) {
        let file = path.display().to_string();
        let images = match &outcome {
            Outcome::Imported(records) => {
                let names = records.keys().filter(|name| !name.starts_with("sha256:") && !name.contains('@'));
                names.cloned().collect::<Vec<_>>().join(", ")
            }
            Outcome::Broken(_) | Outcome::Failed(..) => String::new(),
        };
        match self.archives.record(path, outcome, Timestamp::now()) {
            Some(Report::Imported) => tracing::info!(file, images, "imported the images of an archive"),
            Some(Report::Problem(problem)) => tracing::warn!(file, problem, "image archive cannot be used"),
            None => {}
        }
    }

    /// Makes archives due again whose images were removed or changed by someone else.
    async fn find_lost_images(&mut self) -> Result<(), StoreError> {
        let mut lost = Vec::new();
        for (path, records) in self.archives.imported() {
            match is_present(&*self.store, records).await {
                Ok(true) => {}
                Ok(false) => lost.push(path.clone()),
                Err(error @ StoreError::Unsupported(_)) => return Err(error),
                // The runtime is unavailable; the next check tries again.
                Err(StoreError::Failed { .. } | StoreError::TimedOut { .. }) => return Ok(()),
            }
        }
        lost.iter().for_each(|path| self.archives.again(path));
        Ok(())
    }
}

fn renew_and_list(
    mut watch: Watch,
    directory: &Path,
) -> (Watch, io::Result<BTreeMap<PathBuf, ListedArchive>>) {
    // Watched before it is read, so that no change is missed in between.
    watch.renew();
    (watch, list(directory, Timestamp::now()))
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
