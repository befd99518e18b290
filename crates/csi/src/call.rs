//! The seam to a driver's node service: what is asked of it, and what it answers, in terms of this crate. Owns no behavior.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use hostlet_plugins::code_name;
use serde::{Deserialize, Serialize};
use tonic::Code;

/// What must not be printed: credentials, tokens.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(pub BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// As what a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A mounted filesystem.
    Filesystem {
        /// Its type; empty if the driver chooses.
        fs_type: String,
        /// Mount options.
        options: Vec<String>,
    },
    /// A block device.
    Block,
}

/// An access mode of a PersistentVolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessMode {
    /// `ReadWriteOnce`.
    ReadWriteOnce,
    /// `ReadOnlyMany`.
    ReadOnlyMany,
    /// `ReadWriteMany`.
    ReadWriteMany,
    /// `ReadWriteOncePod`.
    ReadWriteOncePod,
}

/// How a volume is used (CSI `VolumeCapability`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// As what.
    pub form: Form,
    /// By whom.
    pub access_mode: AccessMode,
    /// The group that the driver gives the files to (`volume_mount_group`), if it can and is asked to.
    pub group: Option<i64>,
}

/// What a driver's node service can do (CSI `NodeGetCapabilities`). What is unknown is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities {
    /// `STAGE_UNSTAGE_VOLUME`.
    pub stage: bool,
    /// `GET_VOLUME_STATS`.
    pub stats: bool,
    /// `EXPAND_VOLUME`.
    pub expand: bool,
    /// `SINGLE_NODE_MULTI_WRITER`.
    pub single_node_multi_writer: bool,
    /// `VOLUME_MOUNT_GROUP`.
    pub mount_group: bool,
    /// `GET_VOLUME_HEALTH`.
    pub health: bool,
}

/// What a driver says of this node (CSI `NodeGetInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// The driver's name of the node.
    pub node_id: String,
    /// How many volumes may be attached; `None` if the driver sets no limit.
    pub max_volumes: Option<i64>,
    /// Where the node is, by topology key.
    pub topology: BTreeMap<String, String>,
}

/// CSI `NodeStageVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageCall {
    /// The volume.
    pub handle: String,
    /// What the attacher said.
    pub publish_context: BTreeMap<String, String>,
    /// Where.
    pub staging: PathBuf,
    /// For what.
    pub capability: Capability,
    /// Of `nodeStageSecretRef`.
    pub secrets: Secrets,
    /// The volume's attributes.
    pub context: BTreeMap<String, String>,
    /// Whether it is a volume of a type that Kubernetes once mounted itself. Only counted.
    pub is_migrated: bool,
}

/// CSI `NodePublishVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishCall {
    /// The volume.
    pub handle: String,
    /// What the attacher said.
    pub publish_context: BTreeMap<String, String>,
    /// Where it is staged, if the driver stages.
    pub staging: Option<PathBuf>,
    /// Where it is published.
    pub target: PathBuf,
    /// For what.
    pub capability: Capability,
    /// Whether it can only be read there.
    pub read_only: bool,
    /// Of `nodePublishSecretRef`, and perhaps tokens.
    pub secrets: Secrets,
    /// The volume's attributes, facts about the pod, and perhaps tokens.
    pub context: BTreeMap<String, String>,
    /// Whether it is a volume of a type that Kubernetes once mounted itself. Only counted.
    pub is_migrated: bool,
}

/// CSI `NodeExpandVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandCall {
    /// The volume.
    pub handle: String,
    /// Where it is published, or staged.
    pub path: PathBuf,
    /// Where it is staged, if the driver stages.
    pub staging: Option<PathBuf>,
    /// The size that is asked for, bytes.
    pub size: u64,
    /// For what.
    pub capability: Capability,
    /// Of `nodeExpandSecretRef`.
    pub secrets: Secrets,
    /// Whether it is a volume of a type that Kubernetes once mounted itself. Only counted.
    pub is_migrated: bool,
}

/// What a volume's usage is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageUnit {
    /// Bytes.
    Bytes,
    /// Inodes.
    Inodes,
}

/// A volume's usage in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// In what.
    pub unit: UsageUnit,
    /// Available to users.
    pub available: i64,
    /// Total.
    pub total: i64,
    /// Used.
    pub used: i64,
}

/// What a driver says of a published volume (CSI `NodeGetVolumeStats`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeStats {
    /// Its usage by unit.
    pub usage: Vec<Usage>,
}

/// A call failed. The text is upstream's, of gRPC for Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {} desc = {message}", code_name(*code))]
pub struct CallError {
    /// The method, e.g. `NodeStageVolume`.
    pub call: &'static str,
    /// The status that the driver, or the connection to it, gave.
    pub code: Code,
    /// One line, without secrets.
    pub message: String,
}

impl CallError {
    /// Whether the driver has certainly not done, and is not doing, what was asked (upstream `isFinalError`). After any other error it may
    /// have been done.
    pub fn is_final(&self) -> bool {
        match self.code {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted => false,
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => true,
        }
    }
}

/// The node service of a driver that is registered. Each call has a deadline of its own (upstream: 2 minutes), and may be repeated.
#[async_trait]
pub trait NodeService: Send + Sync + 'static {
    /// What it can do. Asked of the driver once, then remembered.
    async fn capabilities(&self) -> Result<NodeCapabilities, CallError>;

    /// What it says of this node.
    async fn info(&self) -> Result<NodeInfo, CallError>;

    /// Prepares a volume on the node.
    async fn stage(&self, call: &StageCall) -> Result<(), CallError>;

    /// The reverse.
    async fn unstage(&self, handle: &str, staging: &std::path::Path) -> Result<(), CallError>;

    /// Puts a volume where a pod uses it.
    async fn publish(&self, call: &PublishCall) -> Result<(), CallError>;

    /// The reverse.
    async fn unpublish(&self, handle: &str, target: &std::path::Path) -> Result<(), CallError>;

    /// Grows the filesystem, or the device, on this node. Returns the size now, bytes, if the driver says it.
    async fn expand(&self, call: &ExpandCall) -> Result<Option<u64>, CallError>;

    /// How full a published volume is.
    async fn stats(&self, handle: &str, path: &std::path::Path) -> Result<VolumeStats, CallError>;
}
