//! Errors of operations on log directories.

use std::io;
use std::path::{Path, PathBuf};

use hostlet_host::SysError;

/// A failed operation on a log directory, file or link.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the path and the operating system's error")]
pub enum LogError {
    /// A directory could not be created.
    #[error("cannot create the log directory {}", path.display())]
    CreateDir { path: PathBuf, source: io::Error },
    /// A directory could not be listed.
    #[error("cannot list the log directory {}", path.display())]
    ReadDir { path: PathBuf, source: io::Error },
    /// A log could not be opened.
    #[error("cannot open the log {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// A log could not be read.
    #[error("cannot read the log {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file or link could not be inspected.
    #[error("cannot inspect {}", path.display())]
    Inspect { path: PathBuf, source: io::Error },
    /// A link could not be created.
    #[error("cannot create the log link {}", path.display())]
    Link { path: PathBuf, source: io::Error },
    /// There is no log to link to.
    #[error("no log at {}, so no link to it was created", path.display())]
    NoLog { path: PathBuf },
    /// Something other than a link has the name of a link.
    #[error("{} is not a log link and was left unchanged", path.display())]
    NotALink { path: PathBuf },
    /// A file, link or directory could not be removed.
    #[error("cannot remove {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    /// A directory tree could not be removed.
    #[error("cannot remove the log directory {}", path.display())]
    RemoveTree { path: PathBuf, source: SysError },
}

/// Converts an I/O error of an operation on this path.
pub fn at<E>(make: impl FnOnce(PathBuf, io::Error) -> E, path: &Path) -> impl FnOnce(io::Error) -> E {
    let path = path.to_owned();
    move |source| make(path, source)
}
