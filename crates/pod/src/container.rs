//! The kinds of containers in a pod, and references to them. Pure; knows nothing of the runtime's containers.

use k8s_openapi::api::core::v1::Container;

/// The role of a container in its pod (Kubernetes docs, "Init Containers", "Sidecar Containers", "Ephemeral Containers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerKind {
    /// Runs to completion before the next one starts.
    Init,
    /// An init container with restart policy `Always`: the next container starts once it has started, and it keeps running until
    /// the main containers have terminated.
    Sidecar,
    /// Starts after all init containers have completed.
    Main,
    /// Added to a running pod for debugging; never restarted.
    Ephemeral,
}

impl ContainerKind {
    /// The field of the pod's spec that lists it.
    pub fn field(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "initContainers",
            Self::Main => "containers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }

    /// Its name in the labels of upstream's metrics.
    pub fn metric_label(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "init_container",
            Self::Main => "container",
            Self::Ephemeral => "ephemeral_container",
        }
    }

    /// The kind of a container in `spec.initContainers`.
    pub fn of_init(container: &Container) -> Self {
        match container.restart_policy.as_deref() {
            Some("Always") => Self::Sidecar,
            Some(_) | None => Self::Init,
        }
    }
}

/// Identifies a container in a pod's spec.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerRef {
    /// Its role in the pod.
    pub kind: ContainerKind,
    /// Its name, which is unique in the pod.
    pub name: String,
}

/// A container in a pod's spec, with its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodContainer<'a> {
    /// Its role in the pod.
    pub kind: ContainerKind,
    /// The container as the pod's spec has it.
    pub spec: &'a Container,
}

impl ContainerRef {
    /// The path of the container in the pod, as events name it: `spec.containers{name}`.
    pub fn field_path(&self) -> String {
        format!("spec.{}{{{}}}", self.kind.field(), self.name)
    }
}

impl<'a> PodContainer<'a> {
    /// An element of `spec.initContainers`.
    pub fn init(spec: &'a Container) -> Self {
        Self { kind: ContainerKind::of_init(spec), spec }
    }

    /// Kind and name, by which a status or a log refers to it.
    pub fn reference(self) -> ContainerRef {
        ContainerRef { kind: self.kind, name: self.spec.name.clone() }
    }

    /// An element of `spec.containers`.
    pub fn main(spec: &'a Container) -> Self {
        Self { kind: ContainerKind::Main, spec }
    }

    /// An element of `spec.ephemeralContainers`.
    pub(super) fn ephemeral(spec: &'a Container) -> Self {
        Self { kind: ContainerKind::Ephemeral, spec }
    }
}
