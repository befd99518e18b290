//! What a container is to its pod. Pure; knows nothing of what the runtime has.

use k8s_openapi::api::core::v1::Container;

/// The list of the pod's spec that a container is in, and what that means for it (Kubernetes docs, "Init Containers", "Sidecar
/// Containers", "Ephemeral Containers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerKind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container of restart policy `Always`: once it has started the next one starts, and it runs on beside the main
    /// containers until those have ended.
    Sidecar,
    /// Runs once every init container is through.
    Main,
    /// Added to a running pod, to look into it; never started anew.
    Ephemeral,
}

impl ContainerKind {
    /// The kind of a container in `spec.initContainers`.
    pub fn of_init(container: &Container) -> Self {
        match container.restart_policy.as_deref() {
            Some("Always") => Self::Sidecar,
            Some(_) | None => Self::Init,
        }
    }
}

/// Names a container of a pod's spec.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerRef {
    /// What it is to the pod.
    pub kind: ContainerKind,
    /// Its name, unique in the pod.
    pub name: String,
}

/// A container of a pod's spec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodContainer<'a> {
    /// What it is to the pod.
    pub kind: ContainerKind,
    /// What is asked for.
    pub spec: &'a Container,
}

impl<'a> PodContainer<'a> {
    /// One of `spec.initContainers`.
    pub fn init(spec: &'a Container) -> Self {
        Self { kind: ContainerKind::of_init(spec), spec }
    }

    /// Its name.
    pub fn reference(self) -> ContainerRef {
        ContainerRef { kind: self.kind, name: self.spec.name.clone() }
    }

    /// One of `spec.containers`.
    pub fn main(spec: &'a Container) -> Self {
        Self { kind: ContainerKind::Main, spec }
    }
}
