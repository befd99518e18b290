//! Why something could not be measured.

use std::path::PathBuf;

use tokio::task::JoinError;

use hostlet_host::cgroup::CgroupError;
use hostlet_host::{PathError, SysError};
use hostlet_runtime::cri::CriError;

/// A measurement failed; it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The runtime did not report the writable layers.
    #[error("cannot measure the writable layers of the containers")]
    WritableLayers {
        /// The error.
        source: CriError,
    },
    /// The runtime did not report what its images take.
    #[error("cannot measure the images")]
    Images {
        /// The error.
        source: CriError,
    },
    /// The runtime reported no filesystem of its images.
    #[error("the container runtime names no filesystem of its images")]
    NoImageFilesystem,
    /// Files could not be measured.
    #[error("cannot measure files")]
    Files {
        /// The error.
        source: SysError,
    },
    /// The daemon ends.
    #[error("nothing is measured any more")]
    Stopped,
    /// A volume could not be accessed.
    #[error("cannot measure a volume")]
    Volume {
        /// The error.
        source: PathError,
    },
    /// The cgroups of pods could not be listed.
    #[error("cannot list the cgroups of pods")]
    Cgroups {
        /// The error.
        source: CgroupError,
    },
    /// A measurement panicked.
    #[error("a measurement panicked")]
    Panicked {
        /// The panic.
        source: JoinError,
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
