//! Errors of operations on the host, named by the failed step. No logic.

use std::io;
use std::path::PathBuf;

/// A failed operation on the host. I/O variants have the path and the operation.
#[derive(Debug, thiserror::Error)]
pub enum SysError {
    /// A fact could not be read from procfs.
    #[error("cannot read {}", path.display())]
    ReadProc {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<procfs::ProcError>,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A filesystem could not be measured.
    #[error("cannot measure the filesystem of {}", path.display())]
    Filesystem {
        /// A path on it.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {value} to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The content.
        value: String,
        /// The error.
        source: io::Error,
    },
    /// A file could not be written as a whole.
    #[error("cannot write {}", path.display())]
    ReplaceFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A limit of this process could not be read or set.
    #[error("cannot {operation} the limit of open files")]
    OpenFiles {
        /// `read` or `set`.
        operation: &'static str,
        /// The error.
        source: io::Error,
    },
    /// Not running as root.
    #[error("must run as root (user 0), is user {uid}: start it with sudo or as a systemd system service")]
    NotRoot {
        /// The user.
        uid: u32,
    },
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
    CreateDir {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A directory could not be labelled.
    #[error("cannot label {} for SELinux", path.display())]
    Label {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The lock file could not be opened.
    #[error("cannot open lock file {}", path.display())]
    OpenLock {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The lock could not be acquired.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A tmpfs could not be mounted.
    #[error("cannot mount a tmpfs on {}", path.display())]
    MountTmpfs {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A part of another filesystem could not be mounted.
    #[error("cannot mount a part of a volume on {}", path.display())]
    Bind {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A directory could not be mounted on itself.
    #[error("cannot mount {} on itself as a shared mount", path.display())]
    Share {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The program that mounts could not be run.
    #[error("cannot run mount for {}", path.display())]
    RunMount {
        /// The directory to mount on.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The program that mounts failed. The wording is upstream's.
    #[error(
        "mount failed: {status}\nMounting command: mount\nMounting arguments: {arguments}\nOutput: {output}"
    )]
    MountProgram {
        /// How it ended.
        status: String,
        /// Its arguments.
        arguments: String,
        /// What it printed.
        output: String,
    },
    /// The group of a directory tree could not be set.
    #[error("cannot set the group of {}", path.display())]
    SetGroup {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A mount could not be unmounted.
    #[error("cannot unmount {}", path.display())]
    Unmount {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A directory cannot be removed because of a mount on or below it.
    #[error("{} is not removed, as something is mounted in it", path.display())]
    Mounted {
        /// The directory.
        path: PathBuf,
    },
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
    Kill {
        /// The process.
        pid: i32,
        /// The error.
        source: io::Error,
    },
    /// File work panicked.
    #[error("work on the host's files panicked")]
    Step {
        /// The panic.
        source: tokio::task::JoinError,
    },
    /// A directory or file could not be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The directory or file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The space of a directory tree could not be measured.
    #[error("cannot measure the space of {}", path.display())]
    Measure {
        /// The directory or file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for {work}")]
    Thread {
        /// What it is for.
        work: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The work of a thread panicked.
    #[error("{work} panicked")]
    Panicked {
        /// The work.
        work: &'static str,
    },
}
