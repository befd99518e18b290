//! Errors of setting up and tearing down volumes.

use std::fmt;
use std::time::Duration;

use hostlet_base::{Quantity, error_chain};
use hostlet_csi::ReleaseError;
use hostlet_host::{DiskError, PathError as PathWorkError, SysError};
use hostlet_pod::objects::{CertificateError, ObjectError};

use super::files::PathError;

/// Why the content of a volume is not available. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// A referenced object is not available.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A referenced object was requested and has not arrived yet.
    #[error("timed out waiting for the {kind} {name:?}")]
    Pending {
        /// What it is.
        kind: String,
        /// `metadata.name` of the object.
        name: String,
    },
    /// A required key that the object does not have.
    #[error("{what} key: {key}")]
    MissingKey {
        /// The beginning of upstream's message, which differs by kind.
        what: &'static str,
        /// The key in the object's data.
        key: String,
    },
    /// A token that is not available.
    #[error("failed to fetch token: {0}")]
    Token(ObjectError),
    /// Trust bundles that are not available. The wording is upstream's.
    #[error("{0}")]
    TrustBundles(String),
    /// A certificate that is not available.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file has an invalid path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A field that the downward API does not have.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    /// A resource that the downward API does not have.
    #[error("unsupported container resource : {0}")]
    Resource(String),
    /// A container that the pod does not have.
    #[error("container {0} not found")]
    Container(String),
    /// A source or medium that hostlet does not support.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A volume in huge pages, of which the pod requests none, or several sizes.
    #[error("{0}")]
    HugePages(String),
    /// Several errors.
    #[error("[{}]", texts(.0))]
    Several(Vec<ContentError>),
}

fn texts(errors: &[ContentError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl ContentError {
    /// Combines `errors`, if there are any.
    pub(super) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 | 1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// Why an operation on the host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// An operation on the host failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// A file or directory could not be read or created.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// Where.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The files of a volume in memory do not fit in it.
    #[error(
        "the volume is in memory with a size of {}, the least of its sizeLimit, the pod's limits.memory and the node's memory",
        Quantity::bytes(*size)
    )]
    MemoryFull {
        /// The size, in bytes.
        size: u64,
        /// The operation that failed.
        source: Box<HostError>,
    },
    /// A foreign filesystem is mounted in the volume.
    #[error("{} has something mounted in it that is not the volume's own", path.display())]
    ForeignMount {
        /// The volume's directory.
        path: std::path::PathBuf,
    },
    /// Something else is at the volume's path.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: std::path::PathBuf,
    },
    /// A host path is not of the required type. The wording is upstream's.
    #[error("{0}")]
    HostPath(String),
    /// The path of a local volume does not exist. The wording is upstream's.
    #[error("path {:?} does not exist", path.display().to_string())]
    NoPath {
        /// The path.
        path: std::path::PathBuf,
    },
    /// The path of a local volume is a file, for example. The wording is upstream's.
    #[error("only directory and block device are supported")]
    NeitherDirectoryNorDevice,
    /// A local volume that should be a block device is none.
    #[error("{} is not a block device", path.display())]
    NoDevice {
        /// The path.
        path: std::path::PathBuf,
    },
    /// The filesystem of a block device cannot be made or checked.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A volume of a driver is still published.
    #[error(
        "{} is published by the CSI driver {driver}, and only its driver can unpublish it", path.display()
    )]
    OfDriver {
        /// The volume's directory.
        path: std::path::PathBuf,
        /// The driver.
        driver: String,
    },
    /// Another pod uses a volume for one pod only. The wording is upstream's.
    #[error("volume uses the ReadWriteOncePod access mode and is already in use by another pod")]
    InUse,
    /// A path does not respond.
    #[error(transparent)]
    Path(#[from] PathWorkError),
    /// Giving a volume to its group is still in progress. The wording is upstream's.
    #[error(
        "Setting volume ownership for {} is taking longer than expected, consider using OnRootMismatch - \
         https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
         #configure-volume-permission-and-ownership-change-policy-for-pods",
        path.display()
    )]
    Owning {
        /// The volume's directory.
        path: std::path::PathBuf,
    },
}

/// The step of setting up a volume that failed, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeStep {
    /// Nothing can mount volumes of this type.
    FindPlugin,
    /// Nothing can map devices of this type.
    FindMapper,
    /// The volume belongs to other nodes.
    NodeAffinity,
    /// The block device belongs to other nodes.
    DeviceNodeAffinity,
    /// What is to be mounted does not exist.
    NewMounter,
    /// Volumes of this type have no mount options.
    MountOptions,
    /// Preparing a volume on the node.
    MountDevice,
    /// Preparing a block device on the node.
    SetUpDevice,
    /// Giving a block device to a pod.
    MapPodDevice,
    /// Putting a block device where containers find it.
    MapBlockVolume,
    /// Growing a volume that is mounted and not used yet.
    ExpandMounted,
    /// Growing a block device that is not used yet.
    ExpandMapped,
    /// Any other step.
    SetUp,
}

impl fmt::Display for VolumeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FindPlugin => "MountVolume.FindPluginBySpec failed",
            Self::FindMapper => "MapVolume.FindMapperPluginBySpec failed",
            Self::NodeAffinity => "MountVolume.NodeAffinity check failed",
            Self::DeviceNodeAffinity => "MapVolume.NodeAffinity check failed",
            Self::NewMounter => "MountVolume.NewMounter initialization failed",
            Self::MountOptions => "MountVolume.MountOptionSupport check failed",
            Self::MountDevice => "MountVolume.MountDevice failed",
            Self::SetUpDevice => "MapVolume.SetUpDevice failed",
            Self::MapPodDevice => "MapVolume.MapPodDevice failed",
            Self::MapBlockVolume => "MapVolume.MapBlockVolume failed",
            Self::ExpandMounted => "MountVolume.Setup failed while expanding volume",
            Self::ExpandMapped => "MapVolume.MarkVolumeAsMounted failed while expanding volume",
            Self::SetUp => "MountVolume.SetUp failed",
        })
    }
}

/// A problem with a pod's volumes. `Display` is the message of upstream's event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeProblem {
    /// A volume cannot be set up, or is not up to date.
    #[error("{step} for volume {volume:?} : {cause}")]
    Volume {
        /// What failed.
        step: VolumeStep,
        /// Name of the volume: of the PersistentVolume, if it is one.
        volume: String,
        /// The cause, with all its sources.
        cause: String,
    },
    /// The volume of a driver could not be published. The text is upstream's.
    #[error("{0}")]
    Driver(String),
    /// Drivers did not publish these volumes in time.
    #[error(
        "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[]: \
         context deadline exceeded",
        .0.join(" ")
    )]
    Unpublished(Vec<String>),
    /// The node has no room for these volumes of drivers: the pod cannot run here.
    #[error(
        "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[{}], unattached volumes=[{}], \
         failed to process volumes=[]: context deadline exceeded",
        unmounted.join(" "), unattached.join(" ")
    )]
    AttachLimit {
        /// All volumes of the pod that are not mounted, sorted.
        unmounted: Vec<String>,
        /// The volumes concerned, sorted.
        unattached: Vec<String>,
    },
    /// It is not known what some volumes are: their claims cannot be used.
    #[error(
        "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[{}]: {cause}",
        unmounted.join(" "), unprocessed.join(" ")
    )]
    Unprocessed {
        /// All volumes of the pod that are not mounted, sorted.
        unmounted: Vec<String>,
        /// The volumes concerned, sorted.
        unprocessed: Vec<String>,
        /// The causes.
        cause: String,
    },
}

impl VolumeProblem {
    /// The reason of upstream's event: that of block devices is another.
    pub fn reason(&self) -> &'static str {
        if self.to_string().starts_with("MapVolume.") { "FailedMapVolume" } else { "FailedMount" }
    }

    /// Whether the pod cannot run on this node, whatever time passes.
    pub fn rejects_pod(&self) -> bool {
        match self {
            Self::AttachLimit { .. } => true,
            Self::Volume { .. } | Self::Driver(_) | Self::Unpublished(_) | Self::Unprocessed { .. } => false,
        }
    }

    pub(super) fn new(volume: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::at(VolumeStep::SetUp, volume, error)
    }

    pub(super) fn at(step: VolumeStep, volume: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Volume { step, volume: volume.to_owned(), cause: error_chain(error) }
    }
}

/// Why the volumes of a pod could not be processed at all.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The volume task has ended: the daemon is shutting down.
    #[error("the volumes of this node are shut down")]
    Ended,
    /// Earlier work for the pod is still running, probably because a disk hangs.
    #[error("earlier work on the pod's volumes has not ended")]
    Busy,
    /// The operation timed out.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// A volume of a driver could not be taken back.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The actual state could not be read.
    #[error("cannot inspect the pod's volumes")]
    Look(#[source] HostError),
    /// A volume could not be torn down.
    #[error("UnmountVolume.TearDown failed for volume {volume:?}")]
    TearDown {
        /// Its name.
        volume: String,
        /// Why.
        source: HostError,
    },
}
