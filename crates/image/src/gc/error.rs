//! Why images could not be collected.

use std::path::PathBuf;

use hostlet_base::{ContainerId, human_size};
use hostlet_host::SysError;
use hostlet_runtime::cri::CriError;
use tokio::task::JoinError;

/// Why images could not be collected, or not as many as necessary.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The task does not run: before the container runtime has answered, and while hostlet stops.
    #[error(
        "images are not collected before the container runtime has answered and its pods are known to be hostlet's"
    )]
    NotRunning,
    /// Images that archives bring are kept, and it is not known yet which these are.
    #[error("the image archives in imagePreloadDir are not known yet, whose images are kept")]
    ArchivesUnknown,
    /// The images could not be listed.
    #[error("cannot list the images")]
    Images(#[source] CriError),
    /// The containers could not be listed.
    #[error("cannot list the containers, which use images")]
    Containers(#[source] CriError),
    /// A container could not be inspected.
    #[error("cannot inspect container {container}, which may mount images")]
    Mounts {
        /// The container.
        container: ContainerId,
        /// The error.
        source: CriError,
    },
    /// The image of sandboxes is unknown.
    #[error("cannot read the container runtime's settings, which have the image of sandboxes")]
    Settings(#[source] CriError),
    /// The runtime did not say where images are.
    #[error("cannot get the filesystem of the images")]
    Filesystems(#[source] CriError),
    /// The runtime reports none.
    #[error("the container runtime reports no filesystem of images")]
    NoFilesystem,
    /// The filesystem of the images could not be measured.
    #[error("cannot measure how full the image filesystem is")]
    Measure(#[source] SysError),
    /// The measurement panicked.
    #[error("measuring the image filesystem panicked")]
    Panicked(#[source] JoinError),
    /// The filesystem says that it is empty and full.
    #[error("invalid capacity 0 of the image filesystem {}", path.display())]
    NoCapacity {
        /// A path on it.
        path: PathBuf,
    },
    /// The runtime failed to remove images.
    #[error("freed {}, but {failed} {} cannot be removed: {first}", human_size(*freed), if *failed == 1 { "image" } else { "images" })]
    Removals {
        /// The sizes of the removed images, bytes.
        freed: u64,
        /// How many could not be removed.
        failed: usize,
        /// The first of them, with the runtime's error.
        first: String,
    },
    /// All images that may be removed are removed, and that was not enough.
    #[error("{message}")]
    Insufficient {
        /// What was wanted and freed, and what uses the space.
        message: String,
    },
}
