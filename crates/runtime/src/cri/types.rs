//! Types for the runtime's objects, with only the fields that hostlet uses, so that a node of 500 pods stays small.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use hostlet_base::{ContainerId, PodRef, SandboxId};

/// Response of the version handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Name of the runtime, e.g. `containerd`: the scheme of container IDs in the API.
    pub runtime_name: String,
    /// Version of the runtime, e.g. `1.6.20`.
    pub runtime_version: String,
    /// CRI version of the runtime, e.g. `v1`.
    pub api_version: String,
}

/// One condition of the runtime's status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeCondition {
    /// Whether the condition holds.
    pub status: bool,
    /// Machine-readable reason if it does not.
    pub reason: String,
    /// Human-readable reason if it does not.
    pub message: String,
}

/// What the runtime reports about itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeStatus {
    /// `RuntimeReady`: the runtime accepts pods.
    pub runtime: RuntimeCondition,
    /// `NetworkReady`: the runtime's network plugin is configured.
    pub network: RuntimeCondition,
    /// Its handlers, in its order; empty if not reported (before containerd 2).
    pub handlers: Vec<RuntimeHandler>,
    /// Its features; `None` if not reported (before containerd 2).
    pub features: Option<RuntimeFeatures>,
}

/// A runtime handler, as referenced by a RuntimeClass.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeHandler {
    /// Its name; empty for the default handler.
    pub name: String,
    /// Whether it supports recursive read-only mounts.
    pub recursive_read_only_mounts: bool,
    /// Whether it supports user namespaces.
    pub user_namespaces: bool,
}

/// Features of a runtime, independent of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFeatures {
    /// Whether it supports a pod's `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
}

/// Whether a sandbox can have containers.
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
    /// The runtime's ID.
    pub id: SandboxId,
    /// The pod it belongs to, from its labels.
    pub pod: PodRef,
    /// Number of earlier sandboxes of this pod.
    pub attempt: u32,
    /// Whether it is ready, as of the runtime's answer.
    pub state: SandboxState,
    /// Creation time.
    pub created_at: Timestamp,
}

/// A sandbox as inspected.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxStatus {
    /// The runtime's ID.
    pub id: SandboxId,
    /// Number of earlier sandboxes of this pod.
    pub attempt: u32,
    /// Whether it is ready, as of the runtime's answer.
    pub state: SandboxState,
    /// Creation time.
    pub created_at: Timestamp,
    /// Whether it shares the host's network namespace.
    pub host_network: bool,
    /// Its addresses, primary first; empty with the host's network or after it was stopped.
    pub ips: Vec<IpAddr>,
}

impl SandboxStatus {
    /// From a list, which reports neither addresses nor the network namespace.
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

/// Where a container is in its life, as the runtime sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, not started.
    Created,
    /// Its process runs.
    Running,
    /// Its process has exited.
    Exited,
    /// Unknown to the runtime.
    Unknown,
}

/// A container as listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// The runtime's ID.
    pub id: ContainerId,
    /// The sandbox it runs in.
    pub sandbox: SandboxId,
    /// The pod it belongs to, from its labels.
    pub pod: PodRef,
    /// Name of the container in its pod.
    pub name: Arc<str>,
    /// Number of earlier containers of this name in the pod.
    pub attempt: u32,
    /// Where it is between creation and exit, as of the runtime's answer.
    pub state: ContainerState,
    /// Creation time.
    pub created_at: Timestamp,
}

/// The use of resources of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStats {
    /// The runtime's ID.
    pub id: ContainerId,
    /// Name of the container in its pod.
    pub name: Arc<str>,
    /// The memory that it uses, bytes; `None` if the runtime has not measured it.
    pub memory: Option<u64>,
    /// Its writable layer; `None` before the runtime has measured it.
    pub writable_layer: Option<WritableLayer>,
}

/// The space that a container's changes to its root filesystem take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableLayer {
    /// Allocated space, bytes.
    pub bytes: u64,
    /// Number of inodes, if the runtime says.
    pub inodes: Option<u64>,
    /// When the runtime measured it.
    pub at: Timestamp,
    /// A path on the filesystem that has it; `None` if the runtime does not say.
    pub filesystem: Option<PathBuf>,
}

/// A filesystem that the runtime stores images on, and what they take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFilesystem {
    /// When the runtime measured it.
    pub at: Timestamp,
    /// What the images take, bytes.
    pub bytes: u64,
    /// Their inodes, if the runtime says.
    pub inodes: Option<u64>,
    /// A path on the filesystem that has them.
    pub path: PathBuf,
}

/// The image of a container, which need not be a pod's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerImage {
    /// The runtime's ID of the container.
    pub container: ContainerId,
    /// The pod it belongs to, from its labels; `None` for a container that no kubelet created.
    pub pod: Option<PodRef>,
    /// What the runtime says of its image: an ID, a name, or both; never empty texts.
    pub references: Vec<String>,
}

/// The filesystems of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFilesystems {
    /// Those with images, and what images take on each.
    pub images: Vec<ImageFilesystem>,
    /// Those with writable layers, and what these take on each; empty if the runtime does not say.
    pub containers: Vec<ImageFilesystem>,
}

/// A container as inspected.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// The runtime's ID.
    pub id: ContainerId,
    /// Name of the container in its pod.
    pub name: Arc<str>,
    /// Number of earlier containers of this name in the pod.
    pub attempt: u32,
    /// Its sandbox, which the CRI reports only in lists; `None` without one.
    pub sandbox: Option<SandboxId>,
    /// Where it is between creation and exit, as of the runtime's answer.
    pub state: ContainerState,
    /// Creation time.
    pub created_at: Timestamp,
    /// When its process started, if it did.
    pub started_at: Option<Timestamp>,
    /// When its process exited, if it did.
    pub finished_at: Option<Timestamp>,
    /// Exit code of its process; valid once exited.
    pub exit_code: i32,
    /// Machine-readable reason, e.g. `Completed`, `Error`, `OOMKilled`.
    pub reason: String,
    /// Human-readable message, e.g. why it could not start.
    pub message: String,
    /// The image's name in the runtime.
    pub image: String,
    /// The image by digest.
    pub image_ref: String,
    /// Hash of its spec (annotation `io.kubernetes.container.hash`); `None` if malformed.
    pub hash: Option<u32>,
    /// The pod's termination grace period at its creation in seconds (annotation), for pods no longer in any source.
    pub grace_seconds: Option<i64>,
    /// Its preStop hook (annotations), for pods no longer in any source.
    pub pre_stop: Option<Box<StoredPreStop>>,
    /// Path of its log on the host.
    pub log_path: String,
    /// Host path of its termination log, if mounted.
    pub termination_log: Option<String>,
    /// `File` or `FallbackToLogsOnError` (annotation); empty if unknown.
    pub termination_policy: String,
    /// The identity of its first process; `None` before containerd 2.
    pub user: Option<Box<LinuxUser>>,
    /// The signal that stops it, by its name in the API; `None` before containerd 2.3.
    pub stop_signal: Option<&'static str>,
    /// The identifiers of the images that it mounts as volumes, by the path in it; empty before containerd 2.1.
    pub image_mounts: BTreeMap<String, String>,
}

impl ContainerStatus {
    /// From a list, which reports no times except creation, no exit and no image.
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
            pre_stop: None,
            log_path: String::new(),
            termination_log: None,
            termination_policy: String::new(),
            user: None,
            stop_signal: None,
            image_mounts: BTreeMap::new(),
        }
    }
}

/// A preStop hook as it is stored with its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPreStop {
    /// JSON of the handler.
    pub handler: String,
    /// JSON of the container's ports, which the handler may name.
    pub ports: String,
}

/// The identity of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinuxUser {
    /// UID of the process.
    pub uid: i64,
    /// Primary GID.
    pub gid: i64,
    /// Supplementary GIDs.
    pub supplemental_groups: Vec<i64>,
}

/// What a command in a container printed, and how it exited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its standard output; runtimes truncate it (at 16 MiB, all of a message).
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
    /// Its exit code; of a process that a signal ended, 128 and the signal's number.
    pub exit_code: i32,
}

/// Which standard streams of a process a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StdStreams {
    /// Whether the client sends standard input.
    pub stdin: bool,
    /// Whether the client gets standard output.
    pub stdout: bool,
    /// Its standard error; not with a terminal, which has one output.
    pub stderr: bool,
    /// Whether it has a terminal.
    pub tty: bool,
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
    /// UID in the image's configuration, if numeric.
    pub uid: Option<i64>,
    /// User name in the image's configuration, if not numeric; empty otherwise.
    pub username: String,
    /// Whether the runtime says that it must not be removed, as of the image of sandboxes.
    pub pinned: bool,
}
