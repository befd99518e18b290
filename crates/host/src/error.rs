//! Errors of operations on the host, named by the failed step. No logic.

use std::io;
use std::path::PathBuf;

/// A failed operation on the host. I/O variants have the path and the operation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum SysError {
    /// A fact could not be read from procfs.
    #[error("cannot read {}", path.display())]
    ReadProc { path: PathBuf, source: Box<procfs::ProcError> },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A filesystem could not be measured.
    #[error("cannot measure the filesystem of {}", path.display())]
    Filesystem {
        /// Any path on that filesystem.
        path: PathBuf,
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {value} to {}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    /// A file could not be written as a whole.
    #[error("cannot write {}", path.display())]
    ReplaceFile { path: PathBuf, source: io::Error },
    /// A limit of this process could not be read or set.
    #[error("cannot {operation} the limit of open files")]
    OpenFiles {
        /// `read` or `set`.
        operation: &'static str,
        source: io::Error,
    },
    /// Not running as root.
    #[error("must run as root (user 0), is user {uid}: start it with sudo or as a systemd system service")]
    NotRoot { uid: u32 },
    /// A configured directory is relative, or has `.`, `..`, `//` or a trailing slash.
    #[error("{} is not a clean absolute path: write {}", path.display(), clean.display())]
    NotCanonical {
        /// The configured path.
        path: PathBuf,
        /// The corrected path.
        clean: PathBuf,
    },
    /// A directory could not be created.
    #[error("cannot create directory {}", path.display())]
    CreateDir { path: PathBuf, source: io::Error },
    /// A directory could not be labelled.
    #[error("cannot label {} for SELinux", path.display())]
    Label { path: PathBuf, source: io::Error },
    /// The lock file could not be opened.
    #[error("cannot open lock file {}", path.display())]
    OpenLock { path: PathBuf, source: io::Error },
    /// The lock could not be acquired.
    #[error("cannot lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    /// A tmpfs could not be mounted.
    #[error("cannot mount a tmpfs on {}", path.display())]
    MountTmpfs { path: PathBuf, source: io::Error },
    /// A part of another filesystem could not be mounted.
    #[error("cannot mount a part of a volume on {}", path.display())]
    Bind {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// A directory could not be mounted on itself.
    #[error("cannot mount {} on itself as a shared mount", path.display())]
    Share { path: PathBuf, source: io::Error },
    /// The program that mounts could not be run.
    #[error("cannot run mount for {}", path.display())]
    RunMount {
        /// The directory to mount on.
        path: PathBuf,
        source: io::Error,
    },
    /// The program that mounts failed. The wording is upstream's.
    #[error(
        "mount failed: {status}\nMounting command: mount\nMounting arguments: {arguments}\nOutput: {output}"
    )]
    MountProgram {
        /// How it ended.
        status: String,
        arguments: String,
        /// What it printed.
        output: String,
    },
    /// The group of a directory tree could not be set.
    #[error("cannot set the group of {}", path.display())]
    SetGroup { path: PathBuf, source: io::Error },
    /// A mount could not be unmounted.
    #[error("cannot unmount {}", path.display())]
    Unmount { path: PathBuf, source: io::Error },
    /// A directory cannot be removed because of a mount on or below it.
    #[error("{} is not removed, as something is mounted in it", path.display())]
    Mounted { path: PathBuf },
    /// There is something in the directory or file on which something was mounted.
    #[error(
        "{} has content of its own, which is not deleted: it was written while nothing was mounted there; move it away",
        path.display()
    )]
    MountPointInUse {
        /// The mount point.
        path: PathBuf,
    },
    /// A killed process does not exit.
    #[error("cannot kill the process {pid}")]
    Kill { pid: i32, source: io::Error },
    /// File work panicked.
    #[error("work on the host's files panicked")]
    Step { source: tokio::task::JoinError },
    /// A directory or file could not be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The directory or file.
        path: PathBuf,
        source: io::Error,
    },
    /// The space of a directory tree could not be measured.
    #[error("cannot measure the space of {}", path.display())]
    Measure {
        /// The directory or file.
        path: PathBuf,
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for {work}")]
    Thread { work: &'static str, source: io::Error },
    /// The work of a thread panicked.
    #[error("{work} panicked")]
    Panicked { work: &'static str },
}
