//! Work on paths from pod specs, separate from the daemon's own file work. Such a path may be on an unreachable server, where the
//! kernel blocks the thread in an uninterruptible state. So the threads are few, only one waits for the same path or remote
//! filesystem, and callers wait for a limited time.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{MountTable, file_work};

/// Maximum number of threads.
const THREADS: usize = 4;

/// Maximum wait of a caller: longer than a merely slow server takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stack size of a thread in bytes.
const STACK: usize = 256 * 1024;

/// Prefixes of the types of filesystems that are not served by this kernel alone.
const REMOTE: [&str; 12] =
    ["nfs", "cifs", "smb", "fuse", "ceph", "9p", "virtiofs", "autofs", "afs", "lustre", "beegfs", "gpfs"];

/// Why there is no result for a path.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// Accessing it blocks.
    #[error(
        "{} does not respond: its filesystem is unreachable, perhaps a network filesystem whose server is down; \
         retried until it responds",
        path.display()
    )]
    Stuck {
        /// The path.
        path: PathBuf,
    },
    /// All threads are blocked on other paths.
    #[error(
        "{} was not accessed: all threads for paths of pods are blocked on others that do not respond ({})",
        path.display(), listed(stuck)
    )]
    Busy {
        /// The path.
        path: PathBuf,
        /// The blocked paths.
        stuck: Vec<PathBuf>,
    },
    /// A thread could not be started.
    #[error("cannot start a thread to look at {}", path.display())]
    Thread {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The work panicked.
    #[error("the work on {} panicked", path.display())]
    Panicked {
        /// The path.
        path: PathBuf,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The threads for paths that pods name. Clones share them.
#[derive(Clone, Debug)]
pub struct PathWork {
    places: Arc<Semaphore>,
    units: Arc<Mutex<BTreeMap<PathBuf, Arc<Unit>>>>,
    patience: Duration,
}

/// The unit of blocking: a remote filesystem or a path.
#[derive(Debug, Default)]
struct Unit {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Start of the work.
    since: Mutex<Option<Instant>>,
}

/// Held by a thread until its work is done.
struct Held {
    unit: Arc<Unit>,
    _place: OwnedSemaphorePermit,
    _turn: OwnedMutexGuard<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.unit.since.lock() = None;
    }
}

impl Default for PathWork {
    fn default() -> Self {
        Self::new(THREADS, PATIENCE)
    }
}

impl PathWork {
    fn new(threads: usize, patience: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(threads)), units: Arc::default(), patience }
    }

    /// Runs `work` on `path`, which may block forever, on a separate thread with a limit of ten seconds. Work that takes longer
    /// continues until the kernel unblocks it; in the meantime requests for the same path, or the same remote filesystem in
    /// `mounts`, fail at once. Unit tests run it in place, like [`file_work()`].
    ///
    /// # Errors
    /// There is no result in time, for one of the reasons of [`PathError`].
    pub async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        mounts: &MountTable,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PathError> {
        if cfg!(test) {
            file_work(work).await.map_err(|_| PathError::Panicked { path: path.to_owned() })
        } else {
            self.run_on_thread(path, mounts, work).await
        }
    }

    async fn run_on_thread<T: Send + 'static>(
        &self,
        path: &Path,
        mounts: &MountTable,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PathError> {
        let stuck = || PathError::Stuck { path: path.to_owned() };
        let deadline = Instant::now() + self.patience;
        let unit = self.unit(unit_of(path, mounts));
        if unit.is_stuck(self.patience) {
            return Err(stuck());
        }
        let turn = timeout_at(deadline, unit.turn.clone().lock_owned()).await.map_err(|_| stuck())?;
        let place = timeout_at(deadline, self.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err(PathError::Busy { path: path.to_owned(), stuck: self.under_way() });
        };
        *unit.since.lock() = Some(Instant::now());
        let held = Held { unit, _place: place, _turn: turn };
        let (reply, answer) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        let on_thread = move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            drop(held);
            // The caller may have stopped waiting.
            let _ = reply.send(done);
        };
        let started = thread::Builder::new().name("pod-paths".to_owned()).stack_size(STACK).spawn(on_thread);
        started.map_err(|source| PathError::Thread { path: path.to_owned(), source })?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(_)) | Err(_)) => Err(PathError::Panicked { path: path.to_owned() }),
            Err(_) => Err(stuck()),
        }
    }

    fn unit(&self, name: PathBuf) -> Arc<Unit> {
        let mut units = self.units.lock();
        // Entries without a thread or waiters.
        units.retain(|_, unit| Arc::strong_count(unit) > 1);
        units.entry(name).or_default().clone()
    }

    fn under_way(&self) -> Vec<PathBuf> {
        let units = self.units.lock();
        let busy = units.iter().filter(|(_, unit)| unit.since.lock().is_some());
        busy.map(|(name, _)| name.clone()).collect()
    }
}

impl Unit {
    /// Whether its thread has worked longer than callers wait.
    fn is_stuck(&self, patience: Duration) -> bool {
        self.since.lock().is_some_and(|since| since.elapsed() >= patience)
    }
}

/// The unit that `path` blocks with: its remote filesystem, by its name, else itself.
fn unit_of(path: &Path, mounts: &MountTable) -> PathBuf {
    let mount =
        mounts.of(path).filter(|mount| REMOTE.iter().any(|remote| mount.filesystem.starts_with(remote)));
    mount.map_or_else(|| path.to_owned(), |mount| mount.point.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(120);

    /// The same threads with another maximum wait.
    fn with(threads: &PathWork, patience: Duration) -> PathWork {
        PathWork { patience, ..threads.clone() }
    }

    fn mounts() -> MountTable {
        MountTable::parse(
            b"25 1 254:0 / / rw - ext4 /dev/vda rw\n\
            26 25 0:40 / /mnt/nfs rw - nfs4 server:/ rw\n\
            27 25 0:41 / /data rw - xfs /dev/vdb rw\n\
            28 25 0:42 / /mnt/s3 rw - fuse.s3fs s3 rw\n",
        )
    }

    #[test]
    fn paths_on_one_remote_filesystem_block_together_and_others_alone() {
        for (path, unit) in [
            ("/mnt/nfs", "/mnt/nfs"),
            ("/mnt/nfs/a/b", "/mnt/nfs"),
            ("/mnt/nfsd", "/mnt/nfsd"),
            ("/mnt/s3/x", "/mnt/s3"),
            ("/data/a", "/data/a"),
            ("/etc", "/etc"),
        ] {
            assert_eq!(unit_of(Path::new(path), &mounts()), Path::new(unit), "{path}");
        }
        assert_eq!(unit_of(Path::new("/x"), &MountTable::default()), Path::new("/x"));
    }

    #[tokio::test]
    async fn paths_on_an_unreachable_server_block_one_thread_only() {
        let threads = PathWork::new(2, SHORT);
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let started = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            for pod in 0..8 {
                let (hang, started) = (hang.clone(), started.clone());
                let work = move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    let _ = hang.lock().recv();
                };
                let path = PathBuf::from(format!("/mnt/nfs/{pod}"));
                let error = threads.run_on_thread(&path, &mounts(), work).await.unwrap_err();
                assert!(matches!(&error, PathError::Stuck { path: stuck } if *stuck == path), "{error:?}");
                assert!(
                    error.to_string().starts_with(&format!("/mnt/nfs/{pod} does not respond")),
                    "{error}"
                );
            }
        }
        assert!(started.load(Ordering::SeqCst) <= 1);
        let patient = with(&threads, LONG);
        assert_eq!(patient.run_on_thread(Path::new("/data/a"), &mounts(), || 7).await.unwrap(), 7);
        drop(release);
        // Waits for the unblocked thread; an earlier block has no later effect.
        let again = patient.run_on_thread(Path::new("/mnt/nfs/0"), &mounts(), || 8).await;
        assert_eq!((again.unwrap(), started.load(Ordering::SeqCst)), (8, 1));
    }

    #[tokio::test]
    async fn a_request_without_a_thread_names_the_blocked_paths_until_they_recover() {
        let threads = PathWork::new(2, SHORT);
        let mut releases = Vec::new();
        for path in ["/a", "/b"] {
            let (release, hang) = mpsc::channel::<()>();
            releases.push(release);
            let stuck = threads.run_on_thread(Path::new(path), &mounts(), move || hang.recv().is_ok()).await;
            assert!(matches!(stuck, Err(PathError::Stuck { .. })), "{stuck:?}");
        }
        let refused = threads.run_on_thread(Path::new("/c"), &mounts(), || ()).await.unwrap_err();
        let expected = "/c was not accessed: all threads for paths of pods are blocked on others that do not respond (/a, /b)";
        assert_eq!(refused.to_string(), expected);
        releases.pop();
        with(&threads, LONG).run_on_thread(Path::new("/c"), &mounts(), || ()).await.unwrap();
        drop(releases);
        with(&threads, LONG).run_on_thread(Path::new("/a"), &mounts(), || ()).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_frees_the_thread() {
        let threads = PathWork::new(1, LONG);
        for _ in 0..3 {
            let panicked = threads.run_on_thread(Path::new("/a"), &mounts(), || panic!("on purpose")).await;
            assert!(matches!(panicked, Err(PathError::Panicked { .. })), "{panicked:?}");
        }
        threads.run_on_thread(Path::new("/a"), &mounts(), || ()).await.unwrap();
    }
}
