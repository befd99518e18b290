//! The `--lock-file`, against two daemons that fight over the same pods. Holds the lock; decides nothing.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::SysError;

/// A lock on a file (flock(2)), held until dropped or the process exits. The file remains: removing it would allow two locks on
/// two files of one name.
#[derive(Debug)]
pub struct LockFile {
    /// Released on drop.
    _lock: Flock<File>,
    path: PathBuf,
}

impl LockFile {
    /// Acquires the lock, creating the file if missing; `None` while another process holds it. Never waits.
    pub fn acquire(path: &Path) -> Result<Option<Self>, SysError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|source| SysError::OpenLock { path: path.to_owned(), source })?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Self { _lock: lock, path: path.to_owned() })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(SysError::Lock { path: path.to_owned(), source: errno.into() }),
        }
    }

    /// Where the lock file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_holds_the_lock_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = LockFile::acquire(&path).unwrap().unwrap();
        assert_eq!(held.path(), path);
        assert!(LockFile::acquire(&path).unwrap().is_none());
        drop(held);
        assert!(LockFile::acquire(&path).unwrap().is_some());
        assert!(path.exists());
    }

    #[test]
    fn a_lock_that_cannot_be_opened_is_named() {
        let error = LockFile::acquire(Path::new("/nowhere/lock")).unwrap_err();
        assert_eq!(error.to_string(), "cannot open lock file /nowhere/lock");
    }
}
