//! Why a log could not be rotated.

use std::io;
use std::path::PathBuf;

use tokio::task::JoinError;

use hostlet_runtime::cri::CriError;

/// A failed step of a rotation. The next one repeats it.
#[derive(Debug, thiserror::Error)]
pub(super) enum RotationError {
    /// The log could not be inspected.
    #[error("cannot inspect the log {}", path.display())]
    Inspect { path: PathBuf, source: io::Error },
    /// Its directory could not be listed.
    #[error("cannot list the log directory {}", path.display())]
    List { path: PathBuf, source: io::Error },
    /// An older file could not be removed.
    #[error("cannot remove the old log {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    /// An older file could not be compressed.
    #[error("cannot compress the old log {}", path.display())]
    Compress { path: PathBuf, source: io::Error },
    /// The log could not be renamed.
    #[error("cannot rename the log {}", path.display())]
    Rename { path: PathBuf, source: io::Error },
    /// The runtime did not open a new log.
    #[error("the container runtime cannot reopen the log {}", path.display())]
    Reopen { path: PathBuf, source: CriError },
    /// The work on files panicked.
    #[error("the work on the log {} failed", path.display())]
    Work { path: PathBuf, source: JoinError },
}
