//! The seam to the cluster: what it says of volumes that must be attached to the node before they can be used. Owns no behavior.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::VolumeId;

/// Why a volume cannot be used here yet. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The API server does not have the Node's status yet that says that the volume is in use.
    #[error("Volume has not been added to the list of VolumesInUse in the node's volume status")]
    NotReportedInUse,
    /// The node's status does not say that it is attached.
    #[error("Volume not attached according to node status")]
    NotInNodeStatus,
    /// Its VolumeAttachment says that attaching failed, or cannot be read.
    #[error("{0}")]
    Failed(String),
    /// The driver has no room for another volume on this node (gRPC `ResourceExhausted` in `status.attachError`). The node's limit is
    /// refreshed; the pod cannot run here.
    #[error("Node has insufficient volume attachment capacity for: {0}")]
    Exhausted(String),
    /// There is no API server, and the driver wants its volumes attached.
    #[error(
        "the CSI driver {0} wants its volumes attached by a controller, and this host runs without a cluster: add a CSIDriver object \
         with attachRequired: false for it to the manifests if it can do without"
    )]
    NoCluster(String),
}

/// What the cluster says of attached volumes.
#[async_trait]
pub trait Attachments: Send + Sync + 'static {
    /// Waits until the Node's status, as the API server has it, names `volume` in `volumesInUse`, so that nobody detaches it from now on.
    /// Returns at once if it does. Has no deadline. Cancel-safe.
    async fn reported_in_use(&self, volume: &VolumeId);

    /// Waits until `volume` is attached to this node, with a deadline of its own. Returns what the attacher says of it
    /// (`status.attachmentMetadata`), which the driver's calls receive as the publish context. Cancel-safe.
    ///
    /// # Errors
    /// It is not attached, or attaching failed. Then retry.
    async fn attached(&self, volume: &VolumeId) -> Result<BTreeMap<String, String>, AttachError>;
}

/// A host without a cluster: nobody attaches.
#[derive(Clone, Copy, Debug)]
pub struct NoAttachments;

#[async_trait]
impl Attachments for NoAttachments {
    async fn reported_in_use(&self, _volume: &VolumeId) {}

    async fn attached(&self, volume: &VolumeId) -> Result<BTreeMap<String, String>, AttachError> {
        Err(AttachError::NoCluster(volume.driver.clone()))
    }
}
