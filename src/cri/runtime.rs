//! The seam: what hostlet asks of a container runtime. The gRPC client serves it, and so does the fake.

use std::collections::HashSet;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::types::{Container, ContainerStatus, ImageInfo, RuntimeStatus, Sandbox, SandboxStatus, Version};
use super::wire::{AuthConfig, ContainerConfig, PodSandboxConfig};
use super::{CriError, Operation};
use crate::types::{CgroupDriver, ContainerId, PodRef, PodUid, SandboxId};

/// What a runtime event is about. It says that something changed, never what it changed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeHint {
    /// Something of this pod changed.
    Pod(PodUid),
    /// The sandbox or container of this identifier changed; the event does not name its pod.
    Object(String),
}

/// Hints of changes; ends when the runtime hangs up. Its first item is [`CriError::Unimplemented`] when the runtime
/// has no events.
pub type EventStream = BoxStream<'static, Result<RuntimeHint, CriError>>;

/// The CRI's RuntimeService. Every call carries a deadline of its own; none is retried here.
#[async_trait]
pub trait RuntimeService: Send + Sync + 'static {
    /// The version handshake.
    async fn version(&self) -> Result<Version, CriError>;

    /// Which run of the runtime answers: another text after each of its restarts. None when that cannot be told.
    async fn instance(&self) -> Option<String>;

    /// Readiness of the runtime and of its network.
    async fn status(&self) -> Result<RuntimeStatus, CriError>;

    /// The cgroup driver the runtime uses; `None` when it cannot say (before containerd 2).
    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, CriError>;

    /// Makes and starts a sandbox. A call that timed out may have made one all the same.
    async fn run_sandbox(&self, config: PodSandboxConfig, handler: &str) -> Result<SandboxId, CriError>;

    /// Stops a sandbox and everything in it, and gives its network back. Idempotent; an unknown sandbox is success.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError>;

    /// Removes a stopped sandbox and its containers. Idempotent; an unknown sandbox is success.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError>;

    /// Inspects a sandbox.
    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, CriError>;

    /// All sandboxes that carry a pod's labels, in any state; of one pod if given. Order is the runtime's.
    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Vec<Sandbox>, CriError>;

    /// Makes a container. A call that timed out may have made one all the same.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> Result<ContainerId, CriError>;

    /// Starts a made container.
    async fn start_container(&self, id: &ContainerId) -> Result<(), CriError>;

    /// Asks a container's process to end, and kills it after `grace_seconds`. Idempotent; unknown is success.
    async fn stop_container(&self, id: &ContainerId, grace_seconds: i64) -> Result<(), CriError>;

    /// Removes a container, killing it if it runs. Idempotent; unknown is success.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError>;

    /// Inspects a container.
    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, CriError>;

    /// All containers that carry a pod's labels, in any state; of one pod if given. Order is the runtime's.
    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Vec<Container>, CriError>;

    /// The pods that the runtime has a sandbox or container of: for when a list of these is too large to be sent. Of a
    /// runtime other than containerd those pods are missing whose lists are too large even by state.
    async fn list_pods(&self) -> Result<HashSet<PodRef>, CriError>;

    /// Subscribes to hints of changes. Nothing is asked of the runtime before the stream is polled.
    fn events(&self) -> EventStream;
}

/// The CRI's ImageService.
#[async_trait]
pub trait ImageService: Send + Sync + 'static {
    /// Inspects an image by name, digest or ID; `None` when the runtime does not have it.
    async fn image_status(&self, image: &str) -> Result<Option<ImageInfo>, CriError>;

    /// Pulls an image and returns its reference. No deadline: a pull ends, fails, or is dropped.
    async fn pull_image(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        sandbox: Option<PodSandboxConfig>,
    ) -> Result<String, CriError>;

    /// All images.
    async fn list_images(&self) -> Result<Vec<ImageInfo>, CriError>;
}

impl CriError {
    /// The call that failed.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Unreachable { operation, .. }
            | Self::TimedOut { operation, .. }
            | Self::NotFound { operation, .. }
            | Self::Unimplemented { operation }
            | Self::Failed { operation, .. }
            | Self::TooLarge { operation, .. }
            | Self::Malformed { operation, .. } => *operation,
        }
    }
}
