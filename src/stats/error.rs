//! Why something could not be measured.

use std::path::PathBuf;

use crate::cri::CriError;
use crate::sys::SysError;

/// A measurement failed; it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The runtime did not report the writable layers.
    #[error("cannot measure the writable layers of the containers")]
    WritableLayers {
        /// The error.
        source: CriError,
    },
    /// Files could not be measured.
    #[error("cannot measure files")]
    Files {
        /// The error.
        source: SysError,
    },
    /// A volume has too many levels of directories.
    #[error(
        "{} has directories nested too deeply to measure all of it; the deepest ones are not counted",
        path.display()
    )]
    TooDeep {
        /// The volume.
        path: PathBuf,
    },
}
