//! What the runtime says, in our types: only what hostlet uses, so that a node of 500 pods stays small.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::types::{ContainerId, PodRef, SandboxId};

/// Answer of the version handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Name of the runtime, e.g. `containerd`: the scheme of container IDs in the API.
    pub runtime_name: String,
    /// Version of the runtime, e.g. `1.6.20`.
    pub runtime_version: String,
    /// CRI version the runtime speaks, e.g. `v1`.
    pub api_version: String,
}

/// One condition of the runtime's status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeCondition {
    /// Whether the condition holds.
    pub status: bool,
    /// Machine-readable cause when it does not.
    pub reason: String,
    /// Human-readable cause when it does not.
    pub message: String,
}

/// What the runtime says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeStatus {
    /// `RuntimeReady`: the runtime accepts pods.
    pub runtime: RuntimeCondition,
    /// `NetworkReady`: the runtime's network plugin is configured.
    pub network: RuntimeCondition,
    /// Its handlers, in its order; empty when it does not say (before containerd 2).
    pub handlers: Vec<RuntimeHandler>,
    /// What it can do; none when it does not say (before containerd 2).
    pub features: Option<RuntimeFeatures>,
}

/// A way to run pods, as a RuntimeClass names it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeHandler {
    /// Its name; empty for the one that pods get without a RuntimeClass.
    pub name: String,
    /// Whether it mounts volumes read-only with everything beneath them.
    pub recursive_read_only_mounts: bool,
    /// Whether it runs pods in user namespaces.
    pub user_namespaces: bool,
}

/// What a runtime can do, whatever the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFeatures {
    /// Whether it honours a pod's `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
}

/// Whether a sandbox can take containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Its network and pause process are up.
    Ready,
    /// It was stopped or died.
    NotReady,
}

/// A sandbox as listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// The runtime's identifier.
    pub id: SandboxId,
    /// The pod it belongs to, from its labels.
    pub pod: PodRef,
    /// How many sandboxes of this pod came before.
    pub attempt: u32,
    /// Ready or not.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A sandbox as inspected.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxStatus {
    /// The runtime's identifier.
    pub id: SandboxId,
    /// How many sandboxes of this pod came before.
    pub attempt: u32,
    /// Ready or not.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether it shares the host's network namespace.
    pub host_network: bool,
    /// Its addresses, primary first; empty with the host's network or after teardown.
    pub ips: Vec<IpAddr>,
}

impl SandboxStatus {
    /// What a listing tells of a sandbox.
    pub fn as_listed(listed: &Sandbox) -> Self {
        Self {
            id: listed.id.clone(),
            attempt: listed.attempt,
            state: listed.state,
            created_at: listed.created_at,
            host_network: false,
            ips: Vec::new(),
        }
    }
}

/// State of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Made, not started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

/// A container as listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// The runtime's identifier.
    pub id: ContainerId,
    /// The sandbox it runs in.
    pub sandbox: SandboxId,
    /// The pod it belongs to, from its labels.
    pub pod: PodRef,
    /// Name of the container in its pod.
    pub name: Arc<str>,
    /// How many containers of this name came before in the pod.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A container as inspected.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// The runtime's identifier.
    pub id: ContainerId,
    /// Name of the container in its pod.
    pub name: Arc<str>,
    /// How many containers of this name came before in the pod.
    pub attempt: u32,
    /// The sandbox it is in. The CRI tells it in listings only; none where no listing is at hand.
    pub sandbox: Option<SandboxId>,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its process started; none before.
    pub started_at: Option<Timestamp>,
    /// When its process ended; none before.
    pub finished_at: Option<Timestamp>,
    /// Exit code of its process; meaningful once exited.
    pub exit_code: i32,
    /// Short machine-readable cause, e.g. `Completed`, `Error`, `OOMKilled`.
    pub reason: String,
    /// Longer cause, e.g. why it could not start.
    pub message: String,
    /// The image as the runtime names it.
    pub image: String,
    /// The image by digest.
    pub image_ref: String,
    /// Hash of the spec it was made from (annotation `io.kubernetes.container.hash`); none when unreadable.
    pub hash: Option<u32>,
    /// The pod's termination grace period it was made with, seconds (annotation); for pods no longer in any source.
    pub grace_seconds: Option<i64>,
    /// Path of its log on the host.
    pub log_path: String,
    /// Host path of its termination log, if mounted.
    pub termination_log: Option<String>,
    /// `File` or `FallbackToLogsOnError` (annotation); empty when unknown.
    pub termination_policy: String,
    /// As whom its first process started; none before containerd 2.
    pub user: Option<Box<LinuxUser>>,
}

impl ContainerStatus {
    /// What a listing tells of a container.
    pub fn as_listed(listed: &Container) -> Self {
        Self {
            id: listed.id.clone(),
            name: listed.name.clone(),
            attempt: listed.attempt,
            sandbox: Some(listed.sandbox.clone()),
            state: listed.state,
            created_at: listed.created_at,
            started_at: None,
            finished_at: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            image: String::new(),
            image_ref: String::new(),
            hash: None,
            grace_seconds: None,
            log_path: String::new(),
            termination_log: None,
            termination_policy: String::new(),
            user: None,
        }
    }
}

/// The identities of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinuxUser {
    /// Its user.
    pub uid: i64,
    /// Its primary group.
    pub gid: i64,
    /// Its further groups.
    pub supplemental_groups: Vec<i64>,
}

/// An image as inspected.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageInfo {
    /// The runtime's identifier, which containers are created from.
    pub id: String,
    /// Names with a tag.
    pub tags: Vec<String>,
    /// Names with a digest.
    pub digests: Vec<String>,
    /// Bytes on disk.
    pub size: u64,
    /// Numeric user the image runs as, when it says so.
    pub uid: Option<i64>,
    /// Name of the user the image runs as, when it is not a number; empty otherwise.
    pub username: String,
}
