//! Why something could not be measured.

use std::path::PathBuf;

use tokio::task::JoinError;

use super::drivers::DriverStatsError;
use hostlet_host::cgroup::CgroupError;
use hostlet_host::{PathError, SysError};
use hostlet_runtime::cri::CriError;

/// A measurement failed; it is repeated.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum MeasureError {
    /// The runtime did not report the writable layers.
    #[error("cannot measure the writable layers of the containers")]
    WritableLayers { source: CriError },
    /// The runtime did not report what its images take.
    #[error("cannot measure the images")]
    Images { source: CriError },
    /// The runtime reported no filesystem of its images.
    #[error("the container runtime names no filesystem of its images")]
    NoImageFilesystem,
    /// Files could not be measured.
    #[error("cannot measure files")]
    Files { source: SysError },
    /// The daemon ends.
    #[error("nothing is measured any more")]
    Stopped,
    /// A volume could not be accessed.
    #[error("cannot measure a volume")]
    Volume { source: PathError },
    /// A driver did not say how full a volume is.
    #[error("the driver {driver} does not say how full a volume is")]
    Driver { driver: std::sync::Arc<str>, source: DriverStatsError },
    /// The cgroups of pods could not be listed.
    #[error("cannot list the cgroups of pods")]
    Cgroups { source: CgroupError },
    /// A measurement panicked.
    #[error("a measurement panicked")]
    Panicked { source: JoinError },
    /// A volume has too many levels of directories.
    #[error(
        "{} has directories nested too deeply to measure all of it; the deepest ones are not counted",
        path.display()
    )]
    TooDeep { path: PathBuf },
}
