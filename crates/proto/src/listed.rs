//! The CRI's lists, with entries that are decoded one by one, and of entries only what tells whether an object changed: the rest is
//! skipped. Written after `proto/cri.proto`, with its fields' numbers; texts are bytes, which are not copied.

use prost::bytes::Bytes;

/// Full method name of the list of sandboxes.
pub const LIST_SANDBOXES: &str = "/runtime.v1.RuntimeService/ListPodSandbox";
/// Full method name of the streamed list of sandboxes.
pub const STREAM_SANDBOXES: &str = "/runtime.v1.RuntimeService/StreamPodSandboxes";
/// Full method name of the list of containers.
pub const LIST_CONTAINERS: &str = "/runtime.v1.RuntimeService/ListContainers";
/// Full method name of the streamed list of containers.
pub const STREAM_CONTAINERS: &str = "/runtime.v1.RuntimeService/StreamContainers";

/// The answer of a list, or a message of a streamed one: all of them have their entries in this field.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entries {
    /// The entries, encoded.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub entries: Vec<Bytes>,
}

/// A `PodSandbox`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListedSandbox {
    /// The runtime's ID.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// What a kubelet calls it.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ListedSandboxMetadata>,
    /// A `PodSandboxState`.
    #[prost(int32, tag = "3")]
    pub state: i32,
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// Its labels. Of several with one key, the last counts.
    #[prost(message, repeated, tag = "5")]
    pub labels: Vec<Label>,
}

/// A `PodSandboxMetadata`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ListedSandboxMetadata {
    /// Number of earlier sandboxes of the pod.
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

/// A `Container`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListedContainer {
    /// The runtime's ID.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// The runtime's ID of its sandbox.
    #[prost(bytes = "bytes", tag = "2")]
    pub pod_sandbox_id: Bytes,
    /// What a kubelet calls it.
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<ListedContainerMetadata>,
    /// A `ContainerState`.
    #[prost(int32, tag = "6")]
    pub state: i32,
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    /// Its labels. Of several with one key, the last counts.
    #[prost(message, repeated, tag = "8")]
    pub labels: Vec<Label>,
}

/// A `ContainerMetadata`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ListedContainerMetadata {
    /// Number of earlier containers of this name in the pod.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// An entry of a map of texts. A runtime written in Go sends those of one map in any order, another one each time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Label {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}
