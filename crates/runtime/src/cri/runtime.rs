//! The traits for a container runtime, implemented by the gRPC client and by the fake.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use hostlet_base::{CgroupDriver, ContainerId, PodRef, PodUid, SandboxId};

use super::types::{
    Container, ContainerImage, ContainerStats, ContainerStatus, ExecOutput, ImageFilesystem, ImageInfo,
    RuntimeFilesystems, RuntimeStatus, Sandbox, SandboxStatus, StdStreams, Version,
};
use super::wire::{AuthConfig, ContainerConfig, LinuxContainerResources, PodSandboxConfig};
use super::{CriError, Operation};

/// The subject of a runtime event. An event says that something changed, not what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeHint {
    /// This pod changed.
    Pod(PodUid),
    /// The sandbox or container with this ID changed; the event does not name its pod.
    Object(String),
}

/// A stream of hints; ends when the runtime closes it. Its first item is [`CriError::Unimplemented`] if the runtime has no
/// events.
pub type EventStream = BoxStream<'static, Result<RuntimeHint, CriError>>;

/// The CRI's RuntimeService. Every call has a deadline; none is retried.
#[async_trait]
pub trait RuntimeService: Send + Sync + 'static {
    /// The version handshake.
    async fn version(&self) -> Result<Version, CriError>;

    /// Identifies the runtime's instance: a different text after each restart, `None` if unknown.
    async fn instance(&self) -> Option<String>;

    /// Readiness of the runtime and of its network.
    async fn status(&self) -> Result<RuntimeStatus, CriError>;

    /// The runtime's cgroup driver, which containerd before version 2 shows only among its own settings; `None` if unknown.
    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, CriError>;

    /// Sends the runtime the ranges of the pods' addresses, separated by a comma. A runtime may make its network's configuration
    /// of them. Idempotent.
    async fn update_runtime_config(&self, pod_cidr: &str) -> Result<(), CriError>;

    /// Creates and starts a sandbox. A call that timed out may still have created one.
    async fn run_sandbox(&self, config: PodSandboxConfig, handler: &str) -> Result<SandboxId, CriError>;

    /// Stops a sandbox with its containers and releases its network. Idempotent; an unknown sandbox is success.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError>;

    /// Removes a stopped sandbox and its containers. Idempotent; an unknown sandbox is success.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError>;

    /// Announces new resources of a sandbox's pod to the runtime: the sum of its containers, and its overhead.
    /// A runtime may reject them; many do not have this call. Idempotent.
    async fn update_sandbox(
        &self,
        id: &SandboxId,
        resources: LinuxContainerResources,
        overhead: LinuxContainerResources,
    ) -> Result<(), CriError>;

    /// Inspects a sandbox.
    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, CriError>;

    /// All sandboxes with a pod's labels, in any state; of one pod if given. While nothing of it changes, each list of all is the
    /// same allocation. In any order.
    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Arc<[Sandbox]>, CriError>;

    /// Creates a container. A call that timed out may still have created one.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> Result<ContainerId, CriError>;

    /// Starts a created container.
    async fn start_container(&self, id: &ContainerId) -> Result<(), CriError>;

    /// Stops a container: sends its stop signal, then kills it after `grace_seconds`. Idempotent; unknown is success.
    async fn stop_container(&self, id: &ContainerId, grace_seconds: i64) -> Result<(), CriError>;

    /// Removes a container; a running one is killed. Idempotent; unknown is success.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError>;

    /// Changes the resources of a container that was created or runs. Idempotent.
    async fn update_container(
        &self,
        id: &ContainerId,
        resources: LinuxContainerResources,
    ) -> Result<(), CriError>;

    /// Makes the runtime close the log of a running container and open a new one at the same path, after the log was renamed. Not
    /// idempotent.
    async fn reopen_log(&self, id: &ContainerId) -> Result<(), CriError>;

    /// Writes the state of a running container to `file`, within `limit` if that is longer than the usual deadline. Not idempotent.
    async fn checkpoint_container(
        &self,
        id: &ContainerId,
        file: &Path,
        limit: Option<Duration>,
    ) -> Result<(), CriError>;

    /// Inspects a container.
    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, CriError>;

    /// Runs a command in a running container and waits for its exit. The runtime kills it after `timeout`, which is an error;
    /// with `Duration::MAX`, never. Not idempotent.
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<ExecOutput, CriError>;

    /// Prepares a command in a running container and returns the URL where its streams are served; it runs once a client has opened
    /// them there. Not idempotent.
    async fn exec(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        streams: StdStreams,
    ) -> Result<String, CriError>;

    /// Returns the URL where the streams of a running container's own process are served. Nothing happens before a client connects.
    async fn attach(&self, id: &ContainerId, streams: StdStreams) -> Result<String, CriError>;

    /// Returns the URL where connections to ports of a sandbox are served. `ports` are the ones that a client names in
    /// advance. Nothing happens before a client connects.
    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<String, CriError>;

    /// All containers with a pod's labels, in any state; of one pod if given. While nothing of it changes, each list of all is the
    /// same allocation. In any order.
    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Arc<[Container]>, CriError>;

    /// The images of all containers in any state, also of those that no kubelet created.
    async fn container_images(&self) -> Result<Vec<ContainerImage>, CriError>;

    /// The use of resources of all containers; of one pod's if given. Those that do not run may be among them.
    async fn container_stats(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerStats>, CriError>;

    /// The image that sandboxes will be made from, as far as containerd's settings say (before version 2; since then it is pinned).
    async fn sandbox_image_setting(&self) -> Result<Option<String>, CriError>;

    /// The image that a sandbox was made from, which runtimes other than containerd may not report.
    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, CriError>;

    /// The pods with a sandbox or container in the runtime, used when lists of these are too large. With runtimes other than
    /// containerd, pods are missing if even the lists by state are too large.
    async fn list_pods(&self) -> Result<HashSet<PodRef>, CriError>;

    /// Subscribes to hints. Sends nothing before the stream is polled.
    fn events(&self) -> EventStream;
}

/// The CRI's ImageService.
#[async_trait]
pub trait ImageService: Send + Sync + 'static {
    /// Inspects an image by name, digest or ID, for a pod with these annotations; `None` if the runtime does not have it.
    async fn image_status(
        &self,
        image: &str,
        annotations: &HashMap<String, String>,
    ) -> Result<Option<ImageInfo>, CriError>;

    /// Pulls an image for the pod of this sandbox and returns its reference. Without a deadline.
    async fn pull_image(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        sandbox: Option<PodSandboxConfig>,
    ) -> Result<String, CriError>;

    /// Removes an image with all its names, by its ID. Idempotent; an unknown image is success. The containers that use it go on.
    async fn remove_image(&self, id: &str) -> Result<(), CriError>;

    /// All images of the runtime, also those that no pod uses.
    async fn list_images(&self) -> Result<Vec<ImageInfo>, CriError>;

    /// What images take on each filesystem that the runtime stores them on.
    async fn image_filesystems(&self) -> Result<Vec<ImageFilesystem>, CriError>;

    /// The same, with the filesystems of writable layers.
    async fn runtime_filesystems(&self) -> Result<RuntimeFilesystems, CriError> {
        Ok(RuntimeFilesystems { images: self.image_filesystems().await?, containers: Vec::new() })
    }
}

impl CriError {
    /// The failed call.
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
