//! Which volumes are attached to this node, as the Node and VolumeAttachments say. Attaches nothing: the attach-detach controller does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{Backoff, BackoffPolicy, watching};
use hostlet_csi::{AttachError, Attachments, DriverObjects, VolumeId};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Code;

use super::refresh::{RefreshNodeInfo, period};
use crate::api::{ApiErrorKind, TypedApi, Wire, pause};
use crate::node::{RequestError, VolumesInUse, within};

/// How long a volume may take to be attached; upstream's constant (`podAttachAndMountTimeout`).
const ATTACH_TIMEOUT: Duration = Duration::from_secs(123);

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Pauses before a read that failed is repeated.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
    reset_after: Duration::MAX,
};

/// Dependencies of [`ApiAttachments`].
pub struct AttachmentDeps {
    /// Reads VolumeAttachments.
    pub client: Client,
    /// The name of this node.
    pub node_name: String,
    /// Whether the attach-detach controller manages volumes of this node (`enableControllerAttachDetach`).
    pub is_managed: bool,
    /// The Node.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// What the Node says is in use.
    pub volumes_in_use: VolumesInUse,
    /// What the drivers want.
    pub drivers: DriverObjects,
    /// Asks a driver whether its limit has changed.
    pub refresh: RefreshNodeInfo,
}

/// The attached volumes of a node of a cluster.
pub struct ApiAttachments {
    attachments: TypedApi<VolumeAttachment>,
    node_name: String,
    is_managed: bool,
    node: watch::Receiver<Option<Arc<Node>>>,
    reported: watch::Receiver<BTreeSet<String>>,
    drivers: DriverObjects,
    refresh: RefreshNodeInfo,
}

impl ApiAttachments {
    /// Reads with `deps`.
    pub fn new(deps: AttachmentDeps) -> Self {
        Self {
            attachments: TypedApi::all(deps.client),
            node_name: deps.node_name,
            is_managed: deps.is_managed,
            node: deps.node,
            reported: deps.volumes_in_use.reported(),
            drivers: deps.drivers,
            refresh: deps.refresh,
        }
    }

    async fn read(&self, name: &str) -> Result<VolumeAttachment, RequestError> {
        let Wire(attachment) = within(REQUEST_TIMEOUT, self.attachments.get(name)).await?;
        Ok(attachment)
    }

    /// What the attacher says of a volume that the Node calls attached. Repeated while the API server does not answer.
    async fn metadata(
        &self,
        volume: &VolumeId,
        deadline: Instant,
    ) -> Result<BTreeMap<String, String>, AttachError> {
        let name = volume.attachment_name(&self.node_name);
        let mut backoff = None;
        loop {
            let error = match self.read(&name).await {
                Ok(attachment) => return verified(attachment, volume, &name),
                Err(error) => error,
            };
            let now = Instant::now();
            let next = Backoff::next(backoff, &BACKOFF, now, now);
            backoff = Some(next);
            let again = now + pause(next.delay, error.retry_after(), rand::random());
            let may_succeed = match error.error_kind() {
                ApiErrorKind::TooMany(_) | ApiErrorKind::Unavailable => again < deadline,
                ApiErrorKind::NotFound
                | ApiErrorKind::AlreadyExists
                | ApiErrorKind::Conflict
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid => false,
            };
            if !may_succeed {
                let VolumeId { handle, .. } = volume;
                let text =
                    format!("volume {handle} has GET error for volume attachment {name}: {}", error.text());
                return Err(AttachError::Failed(text));
            }
            sleep(again.saturating_duration_since(now)).await;
        }
    }

    /// Why the Node does not call a volume attached.
    async fn obstacle(&self, volume: &VolumeId) -> AttachError {
        // The controller's events say more if it cannot be read.
        let Ok(attachment) = self.read(&volume.attachment_name(&self.node_name)).await else {
            return AttachError::NotInNodeStatus;
        };
        // As upstream: a driver whose limit is not refreshed is not trusted to be full.
        if is_exhausted(&attachment) && period(&self.drivers.now(), &volume.driver).is_some() {
            (self.refresh)(&volume.driver);
            return AttachError::Exhausted(volume.unique_name());
        }
        match failure(&attachment) {
            Some(text) => AttachError::Failed(text),
            None => AttachError::NotInNodeStatus,
        }
    }
}

#[async_trait]
impl Attachments for ApiAttachments {
    async fn reported_in_use(&self, volume: &VolumeId) {
        let name = volume.unique_name();
        watching::becomes(&mut self.reported.clone(), |reported| reported.contains(&name)).await;
    }

    async fn attached(&self, volume: &VolumeId) -> Result<BTreeMap<String, String>, AttachError> {
        if !self.is_managed {
            let text = "attaching volumes from the kubelet is not supported";
            return Err(AttachError::Failed(text.to_owned()));
        }
        let deadline = Instant::now() + ATTACH_TIMEOUT;
        let name = volume.unique_name();
        let mut node = self.node.clone();
        let attached =
            watching::becomes(&mut node, |node| node.as_ref().is_some_and(|node| is_in_status(node, &name)));
        match timeout_at(deadline, attached).await {
            Ok(()) => self.metadata(volume, deadline).await,
            Err(_elapsed) => Err(self.obstacle(volume).await),
        }
    }
}

/// Whether the attach-detach controller says that a volume is attached.
fn is_in_status(node: &Node, volume: &str) -> bool {
    let attached = node.status.as_ref().and_then(|status| status.volumes_attached.as_ref());
    attached.is_some_and(|attached| attached.iter().any(|attached| attached.name == volume))
}

/// What the attacher says, if the volume is attached. The texts are upstream's (`WaitForAttach`).
fn verified(
    attachment: VolumeAttachment,
    volume: &VolumeId,
    name: &str,
) -> Result<BTreeMap<String, String>, AttachError> {
    if let Some(text) = failure(&attachment) {
        return Err(AttachError::Failed(text));
    }
    match attachment.status {
        Some(status) if status.attached => Ok(status.attachment_metadata.unwrap_or_default()),
        Some(_) | None => {
            let VolumeId { handle, .. } = volume;
            Err(AttachError::Failed(format!("volume {handle} is not attached for volume attachment {name}")))
        }
    }
}

/// Why attaching failed, or is being undone (upstream `verifyAttachmentStatus`).
fn failure(attachment: &VolumeAttachment) -> Option<String> {
    if attachment.metadata.deletion_timestamp.is_some() {
        return Some("volume attachment is being deleted".to_owned());
    }
    let status = attachment.status.as_ref().filter(|status| !status.attached)?;
    status.attach_error.as_ref().map(|error| error.message.clone().unwrap_or_default())
}

/// Whether attaching failed because the node has no room for the volume.
fn is_exhausted(attachment: &VolumeAttachment) -> bool {
    let error = attachment.status.as_ref().and_then(|status| status.attach_error.as_ref());
    error.and_then(|error| error.error_code) == Some(i32::from(Code::ResourceExhausted))
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
