//! What the CRI (`runtime.v1`) of Kubernetes 1.37 has beyond the crate `k8s-cri`, whose definitions are those of 1.32: a
//! supplement to it, written after `k8s.io/cri-api` 0.37, `pkg/apis/runtime/v1/api.proto`.

use k8s_cri::v1::{Container, ContainerFilter, Image, ImageFilter, PodSandbox, PodSandboxFilter};

/// Full method name of `RuntimeService.StreamPodSandboxes` (KEP-5825): a server stream, since cri-api 0.36.
pub const STREAM_POD_SANDBOXES: &str = "/runtime.v1.RuntimeService/StreamPodSandboxes";
/// Full method name of `RuntimeService.StreamContainers` (KEP-5825): a server stream, since cri-api 0.36.
pub const STREAM_CONTAINERS: &str = "/runtime.v1.RuntimeService/StreamContainers";
/// Full method name of `ImageService.StreamImages` (KEP-5825): a server stream, since cri-api 0.36.
pub const STREAM_IMAGES: &str = "/runtime.v1.ImageService/StreamImages";

/// Asks for sandboxes, a batch a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamPodSandboxesRequest {
    /// Which sandboxes; all if none is given.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<PodSandboxFilter>,
}

/// A batch of sandboxes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamPodSandboxesResponse {
    /// The batch.
    #[prost(message, repeated, tag = "1")]
    pub pod_sandboxes: Vec<PodSandbox>,
}

/// Asks for containers, a batch a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamContainersRequest {
    /// Which containers; all if none is given.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerFilter>,
}

/// A batch of containers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamContainersResponse {
    /// The batch.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

/// Asks for images, a batch a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamImagesRequest {
    /// Which images; all if none is given.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ImageFilter>,
}

/// A batch of images.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamImagesResponse {
    /// The batch.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}
