//! Work on paths from pod specs, separate from the daemon's own file work. Such a path may be on an unreachable server, where the
//! kernel blocks the thread in an uninterruptible state. So only one thread waits for the same filesystem of a server, an owner of paths
//! blocks a few threads and nobody else's, and callers wait for a limited time.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::in_place::works_in_place;
use super::places::{PER_OWNER, Place, Places};
use crate::MountTable;

/// Maximum wait of a caller: longer than a merely slow server takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of links that are followed to find a path's filesystem, as the kernel's.
const MAX_LINKS: usize = 40;

/// Why there is no result for a path.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PathError {
    /// Accessing it blocks.
    #[error(
        "{} does not respond: its filesystem is unreachable, perhaps a network filesystem whose server is down; \
         retried until it responds",
        path.display()
    )]
    Stuck { path: PathBuf },
    /// All threads for its owner's paths are blocked.
    #[error(
        "{} was not accessed: all threads for paths of its pod are blocked on others that do not respond ({})",
        path.display(), listed(stuck)
    )]
    Busy {
        path: PathBuf,
        /// The blocked paths.
        stuck: Vec<PathBuf>,
    },
    /// A thread could not be started.
    #[error("cannot start a thread to look at {}", path.display())]
    Thread {
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The work panicked.
    #[error("the work on {} panicked", path.display())]
    Panicked { path: PathBuf },
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The threads for paths that pods name. Clones share them.
#[derive(Clone, Debug)]
pub struct PathWork {
    places: Places,
    units: Arc<Mutex<BTreeMap<PathBuf, Arc<Unit>>>>,
    patience: Duration,
}

/// What blocks together: a filesystem of a server, a server or a path.
#[derive(Debug, Default)]
struct Unit {
    slot: Arc<tokio::sync::Mutex<()>>,
    work: Mutex<Option<Work>>,
}

/// Work in progress.
#[derive(Debug)]
struct Work {
    owner: String,
    path: PathBuf,
    since: Instant,
}

/// Held by a thread until its work is done.
struct Held {
    unit: Arc<Unit>,
    _place: Place,
    _slot: OwnedMutexGuard<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.unit.work.lock() = None;
    }
}

impl Default for PathWork {
    fn default() -> Self {
        Self::new(PATIENCE)
    }
}

impl PathWork {
    /// Threads whose callers wait for this long at most.
    pub fn new(patience: Duration) -> Self {
        Self { places: Places::default(), units: Arc::default(), patience }
    }

    /// Runs `work` on `path`, which may block forever, on a separate thread with a time limit. Work that takes longer continues until
    /// the kernel unblocks it; in the meantime requests for the same `unit`, which is what blocks together, fail at once. Of one
    /// `owner`, a few units are worked on at the same time.
    ///
    /// # Errors
    /// There is no result in time, for one of the reasons of [`PathError`].
    pub async fn run<T: Send + 'static>(
        &self,
        owner: &str,
        unit: &Path,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PathError> {
        let stuck = || PathError::Stuck { path: path.to_owned() };
        let deadline = Instant::now() + self.patience;
        let unit = self.unit(unit);
        if unit.is_stuck(self.patience) {
            return Err(stuck());
        }
        // First: an owner who waits for a place must not keep others from the unit.
        let Ok(Some(place)) = timeout_at(deadline, self.places.take(owner)).await else {
            return Err(PathError::Busy { path: path.to_owned(), stuck: self.in_progress(owner) });
        };
        let slot = timeout_at(deadline, unit.slot.clone().lock_owned()).await.map_err(|_| stuck())?;
        *unit.work.lock() =
            Some(Work { owner: owner.to_owned(), path: path.to_owned(), since: Instant::now() });
        let held = Held { unit, _place: place, _slot: slot };
        let (reply, answer) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        let on_thread = move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            drop(held);
            // The caller may have stopped waiting.
            let _ = reply.send(done);
        };
        start(on_thread).map_err(|source| PathError::Thread { path: path.to_owned(), source })?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(_)) | Err(_)) => Err(PathError::Panicked { path: path.to_owned() }),
            Err(_) => Err(stuck()),
        }
    }

    fn unit(&self, name: &Path) -> Arc<Unit> {
        let mut units = self.units.lock();
        // Entries without a thread or waiters.
        units.retain(|_, unit| Arc::strong_count(unit) > 1);
        units.entry(name.to_owned()).or_default().clone()
    }

    /// The paths that block an owner; some of others if it has none itself.
    fn in_progress(&self, owner: &str) -> Vec<PathBuf> {
        let units = self.units.lock();
        let paths = |is_counted: &dyn Fn(&Work) -> bool| -> Vec<PathBuf> {
            let works = units.values().map(|unit| unit.work.lock());
            let paths = works.filter_map(|work| {
                work.as_ref().filter(|work| is_counted(work)).map(|work| work.path.clone())
            });
            paths.take(PER_OWNER).collect()
        };
        let own = paths(&|work| work.owner == owner);
        if own.is_empty() { paths(&|_| true) } else { own }
    }
}

impl Unit {
    /// Whether its thread has worked longer than callers wait.
    fn is_stuck(&self, patience: Duration) -> bool {
        self.work.lock().as_ref().is_some_and(|work| work.since.elapsed() >= patience)
    }
}

/// Starts a thread for work that may block forever.
fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    /// Stack size in bytes.
    const STACK: usize = 256 * 1024;
    if works_in_place() {
        drop(spawn_blocking(work));
        return Ok(());
    }
    std::thread::Builder::new().name("pod-paths".to_owned()).stack_size(STACK).spawn(work).map(drop)
}

/// What `path` blocks with: its remote filesystem, by the device, wherever that is mounted; otherwise the path itself. Does not touch
/// anything remote. Blocking.
pub fn path_unit(path: &Path, mounts: &MountTable) -> PathBuf {
    let followed = follow(path, mounts);
    match mounts.of(&followed).filter(|mount| mount.is_remote()) {
        Some(mount) => PathBuf::from(&mount.origin.device),
        None => followed,
    }
}

/// The path without links, up to where it enters a remote filesystem.
fn follow(path: &Path, mounts: &MountTable) -> PathBuf {
    let names = |path: &Path| -> Vec<OsString> {
        let names = path.components().rev().filter(|part| *part != Component::RootDir);
        names.map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut real, mut rest, mut links) = (PathBuf::from("/"), names(path), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(name);
        if mounts.of(&real).is_some_and(|mount| mount.is_remote()) {
            break;
        }
        let Ok(target) = fs::read_link(&real) else { continue };
        links += 1;
        if links > MAX_LINKS {
            return path.to_owned();
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.extend(names(&target));
    }
    real.extend(rest.iter().rev());
    real
}

#[cfg(test)]
#[path = "path_work_tests.rs"]
mod tests;
