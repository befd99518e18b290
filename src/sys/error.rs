//! What can go wrong with the host, named by the step that failed. Holds no logic.

use std::io;
use std::path::PathBuf;

/// An operation on the host failed. I/O variants name the path and what was tried.
#[derive(Debug, thiserror::Error)]
pub enum SysError {
    /// A fact could not be read from procfs.
    #[error("cannot read {}", path.display())]
    ReadProc {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<procfs::ProcError>,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A filesystem could not be measured.
    #[error("cannot measure the filesystem of {}", path.display())]
    Filesystem {
        /// A path on it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {value} to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A limit of this process could not be read or set.
    #[error("cannot {operation} the limit of open files")]
    OpenFiles {
        /// `read` or `set`.
        operation: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Not started by root.
    #[error("must run as root (user 0), is user {uid}: start it with sudo or as a systemd system service")]
    NotRoot {
        /// The user.
        uid: u32,
    },
    /// A directory is configured by a path that is relative, or has `.`, `..`, `//` or a slash at its end.
    #[error("{} is not a clean absolute path: write {}", path.display(), clean.display())]
    NotCanonical {
        /// What was configured.
        path: PathBuf,
        /// What to write instead.
        clean: PathBuf,
    },
    /// A directory could not be made.
    #[error("cannot create directory {}", path.display())]
    CreateDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The lock file could not be opened.
    #[error("cannot open lock file {}", path.display())]
    OpenLock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The lock could not be asked for.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A tmpfs could not be mounted.
    #[error("cannot mount a tmpfs on {}", path.display())]
    MountTmpfs {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is mounted on a directory could not be unmounted.
    #[error("cannot unmount {}", path.display())]
    Unmount {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory cannot be removed because something is mounted on it or below.
    #[error("{} is not removed, as something is mounted in it", path.display())]
    Mounted {
        /// The directory.
        path: PathBuf,
    },
    /// A process does not end, though it was killed.
    #[error("cannot kill the process {pid}")]
    Kill {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// Work on the host's files panicked.
    #[error("work on the host's files ended early")]
    Step {
        /// How.
        source: tokio::task::JoinError,
    },
    /// A directory or file could not be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The directory or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
