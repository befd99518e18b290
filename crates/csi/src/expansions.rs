//! The seam to the cluster for volumes that grow: what their claims say, and what becomes of it. Owns no behavior.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::{CallError, ClaimOfPod, MissingSecret};

/// How often the claim of a volume in use is read (upstream: with each sync of a pod).
pub const LOOK_PERIOD: Duration = Duration::from_secs(60);

/// How long the API server may delay a pod's start: without an answer the volume grows while it is used.
pub const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// When a volume may have to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It is published, and its pod does not use it yet.
    Mounting,
    /// Its pod uses it.
    InUse,
}

/// What is known of a volume's size on this node. Lost with the daemon, as upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSize {
    /// The size that this node knows, bytes: of the claim when it was first read, or what the volume was last grown to.
    pub known: Option<i64>,
    /// Whether growing it failed before.
    pub has_failed: bool,
}

/// How a claim learns that its volume is growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// By `allocatedResourceStatuses` (feature gate `RecoverVolumeExpansionFailure` of the resizer).
    Recovery {
        /// Whether a failure ends the expansion: the user asks for another size by now.
        gives_up: bool,
    },
    /// The claim has the size already: another node has grown a volume that several nodes use.
    Shared,
    /// By conditions only, for older resizers.
    Legacy,
}

/// A volume that is to grow.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The claim as it was read.
    pub claim: Arc<PersistentVolumeClaim>,
    /// The size that it gets.
    pub quantity: Quantity,
    /// The same, bytes.
    pub size: i64,
    /// How its claim learns of it.
    pub protocol: Protocol,
}

/// What a claim says.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// There is nothing to grow now. This node knows the volume as one of this size from now on; `None` if it keeps what it knew.
    Unchanged(Option<i64>),
    /// It is to grow now.
    Grow(Box<Growth>),
}

/// A volume could not be grown. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    /// A Secret is not available.
    #[error(transparent)]
    Secrets(#[from] MissingSecret),
    /// The driver does not grow volumes in use. It is not tried again while the volume is on this node.
    #[error("Expander.NodeExpand failed to expand the volume : {0}")]
    InUse(CallError),
    /// The driver cannot give the volume this size.
    #[error("Expander.NodeExpand failed to expand the volume {0}")]
    Infeasible(CallError),
    /// The driver failed.
    #[error("Expander.NodeExpand failed to expand the volume : {0}")]
    Call(CallError),
    /// It is a volume of this host, whose filesystem could not be grown.
    #[error("{0}")]
    Host(String),
}

/// The claim could not be read, or does not learn of what happens. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClaimUpdateError(pub String);

/// What the cluster says of the sizes of volumes.
#[async_trait]
pub trait Expansions: Send + Sync + 'static {
    /// Reads the claim of a volume, and its PersistentVolume. If it is to grow, its claim says so from now on. Cancel-safe: a repetition
    /// finds it so.
    ///
    /// # Errors
    /// The claim is not available now. Then retry.
    async fn look(&self, of: &ClaimOfPod, at: Moment, size: NodeSize) -> Result<Look, ClaimUpdateError>;

    /// Publishes whether the volume has grown.
    ///
    /// # Errors
    /// The claim does not have the result. Then start over.
    async fn grown(
        &self,
        of: &ClaimOfPod,
        at: Moment,
        growth: &Growth,
        result: &Result<(), GrowError>,
    ) -> Result<(), ClaimUpdateError>;
}
