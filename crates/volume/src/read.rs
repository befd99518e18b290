//! Reads files that containers wrote into volumes. Follows no link out of the volume, and reads bounded sizes.

use std::io;
use std::path::{Path, PathBuf};

use hostlet_host::{InsideError, PathError, open_existing_inside};

/// Why a file in a volume cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] InsideError),
    /// The volume does not respond.
    #[error(transparent)]
    Volume(#[from] PathError),
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The content of the file `path` in `volume`, of at most `most` bytes. Blocking.
pub(super) fn read_file(volume: &Path, path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    let opened = open_existing_inside(volume, path)?;
    opened.read(most).map_err(|source| ReadError::Read { path: volume.join(path), source })
}
